#include "textflag.h"

#define SYS_clone 220

// func sys(number, a1, a2, a3, a4, a5, a6 uintptr) (result, errno uintptr)
TEXT ·sys(SB),NOSPLIT,$0-72
	MOVD	number+0(FP), R8
	MOVD	a1+8(FP), R0
	MOVD	a2+16(FP), R1
	MOVD	a3+24(FP), R2
	MOVD	a4+32(FP), R3
	MOVD	a5+40(FP), R4
	MOVD	a6+48(FP), R5
	SVC
	CMN	$4095, R0
	BCC	ok
	NEG	R0, R0
	MOVD	ZR, result+56(FP)
	MOVD	R0, errno+64(FP)
	RET
ok:
	MOVD	R0, result+56(FP)
	MOVD	ZR, errno+64(FP)
	RET

// func clone(flags, stack, entry uintptr, w *workspace) (pid, errno uintptr)
TEXT ·clone(SB),NOSPLIT,$0-48
	MOVD	flags+0(FP), R0
	MOVD	stack+8(FP), R1
	MOVD	entry+16(FP), R20
	MOVD	w+24(FP), R19
	MOVD	$0, R2
	MOVD	$0, R3
	MOVD	$0, R4
	MOVD	$SYS_clone, R8
	SVC
	CBZ	R0, child
	CMN	$4095, R0
	BCC	ok
	NEG	R0, R0
	MOVD	ZR, pid+32(FP)
	MOVD	R0, errno+40(FP)
	RET
ok:
	MOVD	R0, pid+32(FP)
	MOVD	ZR, errno+40(FP)
	RET
child:
	// As if called by nobody: a return address of 0. The argument is where
	// either calling convention of Go has the first one, in R0 and on the stack
	// above the place for the return address.
	SUB	$32, RSP
	MOVD	R19, 8(RSP)
	MOVD	R19, R0
	MOVD	ZR, R29
	MOVD	ZR, R30
	JMP	(R20)
