/* The compiled BPF programs as bytes. */
	.section .rodata
	.balign 16
	.globl ingero_bpf_object
	.hidden ingero_bpf_object
ingero_bpf_object:
	.incbin BPF_OBJECT_PATH
	.globl ingero_bpf_object_end
	.hidden ingero_bpf_object_end
ingero_bpf_object_end:
	.byte 0
	.section .note.GNU-stack, "", %progbits
