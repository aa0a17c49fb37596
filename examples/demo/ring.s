# int area_of_ring(int outer, int inner), with its own copy of the inline function square(int).
	.include "frames.inc"

	inline_function _Z6squarei
	mov	%edi, %eax
	imul	%edi, %eax
	end_inline_function _Z6squarei

	function _Z12area_of_ringii
	call	_Z6squarei
	mov	%eax, %ebx
	mov	%esi, %edi
	call	_Z6squarei
	sub	%eax, %ebx
	imul	$355, %ebx, %eax
	cltd
	mov	$113, %ebx
	idiv	%ebx
	end_function _Z12area_of_ringii

	monolithic_frames _Z6squarei, _Z12area_of_ringii
