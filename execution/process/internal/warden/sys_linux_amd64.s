#include "textflag.h"

#define SYS_clone 56

// func sys(number, a1, a2, a3, a4, a5, a6 uintptr) (result, errno uintptr)
TEXT ·sys(SB),NOSPLIT,$0-72
	MOVQ	number+0(FP), AX
	MOVQ	a1+8(FP), DI
	MOVQ	a2+16(FP), SI
	MOVQ	a3+24(FP), DX
	MOVQ	a4+32(FP), R10
	MOVQ	a5+40(FP), R8
	MOVQ	a6+48(FP), R9
	SYSCALL
	CMPQ	AX, $0xfffffffffffff001
	JLS	ok
	NEGQ	AX
	MOVQ	$0, result+56(FP)
	MOVQ	AX, errno+64(FP)
	RET
ok:
	MOVQ	AX, result+56(FP)
	MOVQ	$0, errno+64(FP)
	RET

// func clone(flags, stack, entry uintptr, w *workspace) (pid, errno uintptr)
TEXT ·clone(SB),NOSPLIT,$0-48
	MOVQ	flags+0(FP), DI
	MOVQ	stack+8(FP), SI
	MOVQ	entry+16(FP), R13
	MOVQ	w+24(FP), R12
	MOVQ	$0, DX
	MOVQ	$0, R10
	MOVQ	$0, R8
	MOVQ	$SYS_clone, AX
	SYSCALL
	TESTQ	AX, AX
	JZ	child
	CMPQ	AX, $0xfffffffffffff001
	JLS	ok
	NEGQ	AX
	MOVQ	$0, pid+32(FP)
	MOVQ	AX, errno+40(FP)
	RET
ok:
	MOVQ	AX, pid+32(FP)
	MOVQ	$0, errno+40(FP)
	RET
child:
	// As if called by nobody: a return address of 0. The argument is where
	// either calling convention of Go has the first one, in AX and on the
	// stack; X15 is 0 by one of them.
	SUBQ	$32, SP
	MOVQ	$0, 0(SP)
	MOVQ	R12, 8(SP)
	MOVQ	R12, AX
	XORPS	X15, X15
	XORL	BP, BP
	JMP	R13
