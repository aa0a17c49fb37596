 .text
 .globl plain
plain:
 .cfi_startproc
 nop
 .cfi_endproc
 .section .text.second,"ax",%progbits
 .globl second
second:
 .cfi_startproc
 nop
 .cfi_endproc
