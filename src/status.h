/* SPDX-License-Identifier: BSD-3-Clause
 * The one status type of the library: what an operation of the device, of the plan or of the
 * execution came to. Absence is information (TB_NO_DRIVER), not an error to be printed. */
#ifndef TB_STATUS_H
#define TB_STATUS_H

#define TB_STATUS_LIST(X)                                                                          \
    X(TB_OK, "ok")                                                                                 \
    X(TB_NO_DRIVER, "no GPU driver")                                                               \
    X(TB_OLD_DRIVER, "GPU driver too old")                                                         \
    X(TB_NO_DEVICE, "no usable GPU")                                                               \
    X(TB_NO_IMAGE, "no kernel image for this GPU")                                                 \
    X(TB_NO_KERNEL, "no kernel for this call")                                                     \
    X(TB_NO_MEMORY, "out of memory")                                                               \
    X(TB_NO_THREAD, "cannot start a thread")                                                       \
    X(TB_NOT_READY, "not finished yet")                                                            \
    X(TB_BUSY, "device busy")                                                                      \
    X(TB_TORN, "a product was launched in part")                                                   \
    X(TB_TIMEOUT, "no answer in time")                                                             \
    X(TB_FORKED, "child of a process that used the GPU")                                           \
    X(TB_DEVICE_FAULT, "device fault")                                                             \
    X(TB_DEVICE_OFF, "device switched off")

enum tb_status {
#define TB_STATUS_ENUM(NAME, TEXT) NAME,
    TB_STATUS_LIST(TB_STATUS_ENUM)
#undef TB_STATUS_ENUM
};

const char *tb_status_text(enum tb_status status);

#endif
