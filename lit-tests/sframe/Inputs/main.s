 .text
 .globl _start
_start:
 .cfi_startproc
 nop
 .cfi_endproc
 .section .text.g,"axG",%progbits,g,comdat
 .weak g
g:
 .cfi_startproc
 nop
 .cfi_endproc
