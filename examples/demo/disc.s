# int area_of_disc(int radius), with the inline function square(int) that ring.s defines too.
	.include "frames.inc"

	inline_function _Z6squarei
	mov	%edi, %eax
	imul	%edi, %eax
	end_inline_function _Z6squarei

	function _Z12area_of_disci
	call	_Z6squarei
	imul	$355, %eax, %eax
	cltd
	mov	$113, %ebx
	idiv	%ebx
	end_function _Z12area_of_disci

	monolithic_frames _Z6squarei, _Z12area_of_disci
