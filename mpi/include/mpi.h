/* SPDX-License-Identifier: MIT */
/* MPI over qpmesh: the interface of MPI 5.0 with the standard's ABI, so that a program compiled
 * here runs with every library of that ABI, and the other way around. docs/mpi.md says what is
 * there. */
#ifndef QPMESH_MPI_H
#define QPMESH_MPI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MPI_VERSION 5
#define MPI_SUBVERSION 0
#define MPI_ABI_VERSION 1
#define MPI_ABI_SUBVERSION 0

/* ---- types ---- */

typedef intptr_t MPI_Aint;
typedef int64_t MPI_Offset;
typedef MPI_Offset MPI_Count;
typedef int MPI_Fint;

typedef struct MPI_Status {
  int MPI_SOURCE;
  int MPI_TAG;
  int MPI_ERROR;
  int MPI_internal[5];
} MPI_Status;

/* Handles are pointers to what nobody sees; those that are predefined have small values, in blocks
 * by kind. */
typedef struct MPI_ABI_Op* MPI_Op;
typedef struct MPI_ABI_Comm* MPI_Comm;
typedef struct MPI_ABI_Group* MPI_Group;
typedef struct MPI_ABI_Win* MPI_Win;
typedef struct MPI_ABI_File* MPI_File;
typedef struct MPI_ABI_Session* MPI_Session;
typedef struct MPI_ABI_Message* MPI_Message;
typedef struct MPI_ABI_Info* MPI_Info;
typedef struct MPI_ABI_Errhandler* MPI_Errhandler;
typedef struct MPI_ABI_Request* MPI_Request;
typedef struct MPI_ABI_Datatype* MPI_Datatype;

typedef struct MPI_T_enum_t* MPI_T_enum;
typedef struct MPI_T_cvar_handle_t* MPI_T_cvar_handle;
typedef struct MPI_T_pvar_handle_t* MPI_T_pvar_handle;
typedef struct MPI_T_pvar_session_t* MPI_T_pvar_session;
typedef struct MPI_T_event_registration_t* MPI_T_event_registration;
typedef struct MPI_T_event_instance_t* MPI_T_event_instance;

/* ---- predefined handles ---- */

#define MPI_OP_NULL ((MPI_Op)0x20)
#define MPI_SUM ((MPI_Op)0x21)
#define MPI_MIN ((MPI_Op)0x22)
#define MPI_MAX ((MPI_Op)0x23)
#define MPI_PROD ((MPI_Op)0x24)
#define MPI_BAND ((MPI_Op)0x28)
#define MPI_BOR ((MPI_Op)0x29)
#define MPI_BXOR ((MPI_Op)0x2a)
#define MPI_LAND ((MPI_Op)0x30)
#define MPI_LOR ((MPI_Op)0x31)
#define MPI_LXOR ((MPI_Op)0x32)
#define MPI_MINLOC ((MPI_Op)0x38)
#define MPI_MAXLOC ((MPI_Op)0x39)
#define MPI_REPLACE ((MPI_Op)0x3c)
#define MPI_NO_OP ((MPI_Op)0x3d)

#define MPI_COMM_NULL ((MPI_Comm)0x100)
#define MPI_COMM_WORLD ((MPI_Comm)0x101)
#define MPI_COMM_SELF ((MPI_Comm)0x102)

#define MPI_GROUP_NULL ((MPI_Group)0x108)
#define MPI_GROUP_EMPTY ((MPI_Group)0x109)
#define MPI_WIN_NULL ((MPI_Win)0x110)
#define MPI_FILE_NULL ((MPI_File)0x118)
#define MPI_SESSION_NULL ((MPI_Session)0x120)
#define MPI_MESSAGE_NULL ((MPI_Message)0x128)
#define MPI_MESSAGE_NO_PROC ((MPI_Message)0x129)
#define MPI_INFO_NULL ((MPI_Info)0x130)
#define MPI_INFO_ENV ((MPI_Info)0x131)
#define MPI_ERRHANDLER_NULL ((MPI_Errhandler)0x140)
#define MPI_ERRORS_ARE_FATAL ((MPI_Errhandler)0x141)
#define MPI_ERRORS_ABORT ((MPI_Errhandler)0x142)
#define MPI_ERRORS_RETURN ((MPI_Errhandler)0x143)
#define MPI_REQUEST_NULL ((MPI_Request)0x180)

/* Types. From 0x240 on, bits 3 to 5 of a handle are the logarithm of the size. */
#define MPI_DATATYPE_NULL ((MPI_Datatype)0x200)
#define MPI_AINT ((MPI_Datatype)0x201)
#define MPI_COUNT ((MPI_Datatype)0x202)
#define MPI_OFFSET ((MPI_Datatype)0x203)
#define MPI_PACKED ((MPI_Datatype)0x207)
#define MPI_SHORT ((MPI_Datatype)0x208)
#define MPI_INT ((MPI_Datatype)0x209)
#define MPI_LONG ((MPI_Datatype)0x20a)
#define MPI_LONG_LONG ((MPI_Datatype)0x20b)
#define MPI_LONG_LONG_INT MPI_LONG_LONG
#define MPI_UNSIGNED_SHORT ((MPI_Datatype)0x20c)
#define MPI_UNSIGNED ((MPI_Datatype)0x20d)
#define MPI_UNSIGNED_LONG ((MPI_Datatype)0x20e)
#define MPI_UNSIGNED_LONG_LONG ((MPI_Datatype)0x20f)
#define MPI_FLOAT ((MPI_Datatype)0x210)
#define MPI_C_FLOAT_COMPLEX ((MPI_Datatype)0x212)
#define MPI_C_COMPLEX MPI_C_FLOAT_COMPLEX
#define MPI_CXX_FLOAT_COMPLEX ((MPI_Datatype)0x213)
#define MPI_DOUBLE ((MPI_Datatype)0x214)
#define MPI_C_DOUBLE_COMPLEX ((MPI_Datatype)0x216)
#define MPI_CXX_DOUBLE_COMPLEX ((MPI_Datatype)0x217)
#define MPI_LOGICAL ((MPI_Datatype)0x218)
#define MPI_INTEGER ((MPI_Datatype)0x219)
#define MPI_REAL ((MPI_Datatype)0x21a)
#define MPI_COMPLEX ((MPI_Datatype)0x21b)
#define MPI_DOUBLE_PRECISION ((MPI_Datatype)0x21c)
#define MPI_DOUBLE_COMPLEX ((MPI_Datatype)0x21d)
#define MPI_CHARACTER ((MPI_Datatype)0x21e)
#define MPI_LONG_DOUBLE ((MPI_Datatype)0x220)
#define MPI_C_LONG_DOUBLE_COMPLEX ((MPI_Datatype)0x224)
#define MPI_CXX_LONG_DOUBLE_COMPLEX ((MPI_Datatype)0x225)
#define MPI_FLOAT_INT ((MPI_Datatype)0x228)
#define MPI_DOUBLE_INT ((MPI_Datatype)0x229)
#define MPI_LONG_INT ((MPI_Datatype)0x22a)
#define MPI_2INT ((MPI_Datatype)0x22b)
#define MPI_SHORT_INT ((MPI_Datatype)0x22c)
#define MPI_LONG_DOUBLE_INT ((MPI_Datatype)0x22d)
#define MPI_2REAL ((MPI_Datatype)0x230)
#define MPI_2DOUBLE_PRECISION ((MPI_Datatype)0x231)
#define MPI_2INTEGER ((MPI_Datatype)0x232)
#define MPI_C_BOOL ((MPI_Datatype)0x238)
#define MPI_CXX_BOOL ((MPI_Datatype)0x239)
#define MPI_WCHAR ((MPI_Datatype)0x23c)
#define MPI_INT8_T ((MPI_Datatype)0x240)
#define MPI_UINT8_T ((MPI_Datatype)0x241)
#define MPI_CHAR ((MPI_Datatype)0x243)
#define MPI_SIGNED_CHAR ((MPI_Datatype)0x244)
#define MPI_UNSIGNED_CHAR ((MPI_Datatype)0x245)
#define MPI_BYTE ((MPI_Datatype)0x247)
#define MPI_INT16_T ((MPI_Datatype)0x248)
#define MPI_UINT16_T ((MPI_Datatype)0x249)
#define MPI_INT32_T ((MPI_Datatype)0x250)
#define MPI_UINT32_T ((MPI_Datatype)0x251)
#define MPI_INT64_T ((MPI_Datatype)0x258)
#define MPI_UINT64_T ((MPI_Datatype)0x259)
#define MPI_LOGICAL1 ((MPI_Datatype)0x2c0)
#define MPI_INTEGER1 ((MPI_Datatype)0x2c1)
#define MPI_LOGICAL2 ((MPI_Datatype)0x2c8)
#define MPI_INTEGER2 ((MPI_Datatype)0x2c9)
#define MPI_REAL2 ((MPI_Datatype)0x2ca)
#define MPI_LOGICAL4 ((MPI_Datatype)0x2d0)
#define MPI_INTEGER4 ((MPI_Datatype)0x2d1)
#define MPI_REAL4 ((MPI_Datatype)0x2d2)
#define MPI_COMPLEX4 ((MPI_Datatype)0x2d3)
#define MPI_LOGICAL8 ((MPI_Datatype)0x2d8)
#define MPI_INTEGER8 ((MPI_Datatype)0x2d9)
#define MPI_REAL8 ((MPI_Datatype)0x2da)
#define MPI_COMPLEX8 ((MPI_Datatype)0x2db)
#define MPI_LOGICAL16 ((MPI_Datatype)0x2e0)
#define MPI_INTEGER16 ((MPI_Datatype)0x2e1)
#define MPI_REAL16 ((MPI_Datatype)0x2e2)
#define MPI_COMPLEX16 ((MPI_Datatype)0x2e3)
#define MPI_COMPLEX32 ((MPI_Datatype)0x2eb)

/* ---- error classes ---- */

enum {
  MPI_SUCCESS = 0,
  MPI_ERR_BUFFER,
  MPI_ERR_COUNT,
  MPI_ERR_TYPE,
  MPI_ERR_TAG,
  MPI_ERR_COMM,
  MPI_ERR_RANK,
  MPI_ERR_REQUEST,
  MPI_ERR_ROOT,
  MPI_ERR_GROUP,
  MPI_ERR_OP,
  MPI_ERR_TOPOLOGY,
  MPI_ERR_DIMS,
  MPI_ERR_ARG,
  MPI_ERR_UNKNOWN,
  MPI_ERR_TRUNCATE,
  MPI_ERR_OTHER,
  MPI_ERR_INTERN,
  MPI_ERR_PENDING,
  MPI_ERR_IN_STATUS,
  MPI_ERR_ACCESS,
  MPI_ERR_AMODE,
  MPI_ERR_ASSERT,
  MPI_ERR_BAD_FILE,
  MPI_ERR_BASE,
  MPI_ERR_CONVERSION,
  MPI_ERR_DISP,
  MPI_ERR_DUP_DATAREP,
  MPI_ERR_FILE_EXISTS,
  MPI_ERR_FILE_IN_USE,
  MPI_ERR_FILE,
  MPI_ERR_INFO_KEY,
  MPI_ERR_INFO_NOKEY,
  MPI_ERR_INFO_VALUE,
  MPI_ERR_INFO,
  MPI_ERR_IO,
  MPI_ERR_KEYVAL,
  MPI_ERR_LOCKTYPE,
  MPI_ERR_NAME,
  MPI_ERR_NO_MEM,
  MPI_ERR_NOT_SAME,
  MPI_ERR_NO_SPACE,
  MPI_ERR_NO_SUCH_FILE,
  MPI_ERR_PORT,
  MPI_ERR_QUOTA,
  MPI_ERR_READ_ONLY,
  MPI_ERR_RMA_ATTACH,
  MPI_ERR_RMA_CONFLICT,
  MPI_ERR_RMA_RANGE,
  MPI_ERR_RMA_SHARED,
  MPI_ERR_RMA_SYNC,
  MPI_ERR_SERVICE,
  MPI_ERR_SIZE,
  MPI_ERR_SPAWN,
  MPI_ERR_UNSUPPORTED_DATAREP,
  MPI_ERR_UNSUPPORTED_OPERATION,
  MPI_ERR_WIN,
  MPI_ERR_RMA_FLAVOR,
  MPI_ERR_PROC_ABORTED,
  MPI_ERR_VALUE_TOO_LARGE,
  MPI_ERR_SESSION,
  MPI_ERR_ERRHANDLER,
  MPI_ERR_ABI,

  MPI_T_ERR_CANNOT_INIT = 1001,
  MPI_T_ERR_NOT_ACCESSIBLE,
  MPI_T_ERR_NOT_INITIALIZED,
  MPI_T_ERR_NOT_SUPPORTED,
  MPI_T_ERR_MEMORY,
  MPI_T_ERR_INVALID,
  MPI_T_ERR_INVALID_INDEX,
  MPI_T_ERR_INVALID_ITEM,
  MPI_T_ERR_INVALID_SESSION,
  MPI_T_ERR_INVALID_HANDLE,
  MPI_T_ERR_INVALID_NAME,
  MPI_T_ERR_OUT_OF_HANDLES,
  MPI_T_ERR_OUT_OF_SESSIONS,
  MPI_T_ERR_CVAR_SET_NOT_NOW,
  MPI_T_ERR_CVAR_SET_NEVER,
  MPI_T_ERR_PVAR_NO_WRITE,
  MPI_T_ERR_PVAR_NO_STARTSTOP,
  MPI_T_ERR_PVAR_NO_ATOMIC,

  MPI_ERR_LASTCODE = 0x3fff
};

/* ---- constants ---- */

#define MPI_BOTTOM ((void*)0)
#define MPI_IN_PLACE ((void*)1)
#define MPI_BUFFER_AUTOMATIC ((void*)2)

#define MPI_ARGV_NULL ((char**)0)
#define MPI_ARGVS_NULL ((char***)0)
#define MPI_ERRCODES_IGNORE ((int*)0)
#define MPI_STATUS_IGNORE ((MPI_Status*)0)
#define MPI_STATUSES_IGNORE ((MPI_Status*)0)
#define MPI_UNWEIGHTED ((int*)10)
#define MPI_WEIGHTS_EMPTY ((int*)11)

#define MPI_MAX_DATAREP_STRING 128
#define MPI_MAX_ERROR_STRING 512
#define MPI_MAX_INFO_KEY 256
#define MPI_MAX_INFO_VAL 1024
#define MPI_MAX_LIBRARY_VERSION_STRING 8192
#define MPI_MAX_OBJECT_NAME 128
#define MPI_MAX_PORT_NAME 1024
#define MPI_MAX_PROCESSOR_NAME 256
#define MPI_MAX_STRINGTAG_LEN 1024
#define MPI_MAX_PSET_NAME_LEN 1024
#define MPI_BSEND_OVERHEAD 512

#define MPI_DISPLACEMENT_CURRENT ((MPI_Offset)-1)

enum {
  MPI_ANY_SOURCE = -1,
  MPI_ANY_TAG = -2,
  MPI_PROC_NULL = -3,
  MPI_ROOT = -4,
  MPI_UNDEFINED = -32766
};

enum {
  MPI_THREAD_SINGLE = 0,
  MPI_THREAD_FUNNELED = 1024,
  MPI_THREAD_SERIALIZED = 2048,
  MPI_THREAD_MULTIPLE = 4096
};

enum { MPI_F_STATUS_SIZE = 8, MPI_F_SOURCE = 0, MPI_F_TAG = 1, MPI_F_ERROR = 2 };

enum { MPI_IDENT = 201, MPI_CONGRUENT, MPI_SIMILAR, MPI_UNEQUAL };
enum { MPI_CART = 211, MPI_GRAPH, MPI_DIST_GRAPH };
enum {
  MPI_COMM_TYPE_SHARED = 221,
  MPI_COMM_TYPE_HW_UNGUIDED,
  MPI_COMM_TYPE_HW_GUIDED,
  MPI_COMM_TYPE_RESOURCE_GUIDED
};

enum { MPI_ORDER_C = 12, MPI_ORDER_FORTRAN = 15 };
enum {
  MPI_DISTRIBUTE_NONE = 16,
  MPI_DISTRIBUTE_BLOCK,
  MPI_DISTRIBUTE_CYCLIC,
  MPI_DISTRIBUTE_DFLT_DARG
};
enum {
  MPI_COMBINER_NAMED = 101,
  MPI_COMBINER_DUP,
  MPI_COMBINER_CONTIGUOUS,
  MPI_COMBINER_VECTOR,
  MPI_COMBINER_HVECTOR,
  MPI_COMBINER_INDEXED,
  MPI_COMBINER_HINDEXED,
  MPI_COMBINER_INDEXED_BLOCK,
  MPI_COMBINER_HINDEXED_BLOCK,
  MPI_COMBINER_STRUCT,
  MPI_COMBINER_SUBARRAY,
  MPI_COMBINER_DARRAY,
  MPI_COMBINER_F90_REAL,
  MPI_COMBINER_F90_COMPLEX,
  MPI_COMBINER_F90_INTEGER,
  MPI_COMBINER_RESIZED,
  MPI_COMBINER_VALUE_INDEX
};
enum { MPI_TYPECLASS_INTEGER = 192, MPI_TYPECLASS_REAL, MPI_TYPECLASS_COMPLEX };

enum {
  MPI_KEYVAL_INVALID = 0,
  MPI_TAG_UB = 501,
  MPI_IO,
  MPI_HOST,
  MPI_WTIME_IS_GLOBAL,
  MPI_APPNUM,
  MPI_LASTUSEDCODE,
  MPI_UNIVERSE_SIZE,
  MPI_WIN_BASE = 601,
  MPI_WIN_DISP_UNIT,
  MPI_WIN_SIZE,
  MPI_WIN_CREATE_FLAVOR,
  MPI_WIN_MODEL
};

enum { MPI_LOCK_EXCLUSIVE = 301, MPI_LOCK_SHARED };
enum {
  MPI_WIN_FLAVOR_CREATE = 311,
  MPI_WIN_FLAVOR_ALLOCATE,
  MPI_WIN_FLAVOR_DYNAMIC,
  MPI_WIN_FLAVOR_SHARED
};
enum { MPI_WIN_UNIFIED = 321, MPI_WIN_SEPARATE };
enum { MPI_SEEK_CUR = 401, MPI_SEEK_END, MPI_SEEK_SET };
enum {
  MPI_MODE_APPEND = 1,
  MPI_MODE_CREATE = 2,
  MPI_MODE_DELETE_ON_CLOSE = 4,
  MPI_MODE_EXCL = 8,
  MPI_MODE_RDONLY = 16,
  MPI_MODE_RDWR = 32,
  MPI_MODE_SEQUENTIAL = 64,
  MPI_MODE_UNIQUE_OPEN = 128,
  MPI_MODE_WRONLY = 256,
  MPI_MODE_NOCHECK = 1024,
  MPI_MODE_NOPRECEDE = 2048,
  MPI_MODE_NOPUT = 4096,
  MPI_MODE_NOSTORE = 8192,
  MPI_MODE_NOSUCCEED = 16384
};

typedef enum MPI_T_cb_safety {
  MPI_T_CB_REQUIRE_NONE = 0x00,
  MPI_T_CB_REQUIRE_MPI_RESTRICTED = 0x03,
  MPI_T_CB_REQUIRE_THREAD_SAFE = 0x0f,
  MPI_T_CB_REQUIRE_ASYNC_SIGNAL_SAFE = 0x3f
} MPI_T_cb_safety;
typedef enum MPI_T_source_order {
  MPI_T_SOURCE_ORDERED = 1,
  MPI_T_SOURCE_UNORDERED = 2
} MPI_T_source_order;
#define MPI_T_ENUM_NULL ((MPI_T_enum)0)
#define MPI_T_CVAR_HANDLE_NULL ((MPI_T_cvar_handle)0)
#define MPI_T_PVAR_SESSION_NULL ((MPI_T_pvar_session)0)
#define MPI_T_PVAR_HANDLE_NULL ((MPI_T_pvar_handle)0)
#define MPI_T_PVAR_ALL_HANDLES ((MPI_T_pvar_handle)1)
enum {
  MPI_T_VERBOSITY_USER_BASIC = 0x09,
  MPI_T_VERBOSITY_USER_DETAIL = 0x0a,
  MPI_T_VERBOSITY_USER_ALL = 0x0c,
  MPI_T_VERBOSITY_TUNER_BASIC = 0x11,
  MPI_T_VERBOSITY_TUNER_DETAIL = 0x12,
  MPI_T_VERBOSITY_TUNER_ALL = 0x14,
  MPI_T_VERBOSITY_MPIDEV_BASIC = 0x21,
  MPI_T_VERBOSITY_MPIDEV_DETAIL = 0x22,
  MPI_T_VERBOSITY_MPIDEV_ALL = 0x24
};
enum {
  MPI_T_BIND_NO_OBJECT = 1,
  MPI_T_BIND_MPI_COMM,
  MPI_T_BIND_MPI_DATATYPE,
  MPI_T_BIND_MPI_ERRHANDLER,
  MPI_T_BIND_MPI_FILE,
  MPI_T_BIND_MPI_GROUP,
  MPI_T_BIND_MPI_OP,
  MPI_T_BIND_MPI_REQUEST,
  MPI_T_BIND_MPI_WIN,
  MPI_T_BIND_MPI_MESSAGE,
  MPI_T_BIND_MPI_INFO,
  MPI_T_BIND_MPI_SESSION
};
enum {
  MPI_T_SCOPE_CONSTANT = 1,
  MPI_T_SCOPE_READONLY,
  MPI_T_SCOPE_LOCAL,
  MPI_T_SCOPE_GROUP,
  MPI_T_SCOPE_GROUP_EQ,
  MPI_T_SCOPE_ALL,
  MPI_T_SCOPE_ALL_EQ
};
enum {
  MPI_T_PVAR_CLASS_STATE = 1,
  MPI_T_PVAR_CLASS_LEVEL,
  MPI_T_PVAR_CLASS_SIZE,
  MPI_T_PVAR_CLASS_PERCENTAGE,
  MPI_T_PVAR_CLASS_HIGHWATERMARK,
  MPI_T_PVAR_CLASS_LOWWATERMARK,
  MPI_T_PVAR_CLASS_COUNTER,
  MPI_T_PVAR_CLASS_AGGREGATE,
  MPI_T_PVAR_CLASS_TIMER,
  MPI_T_PVAR_CLASS_GENERIC
};

/* ---- callbacks ---- */

typedef void(MPI_User_function)(void* in, void* inout, int* count, MPI_Datatype* datatype);
typedef void(MPI_User_function_c)(void* in, void* inout, MPI_Count* count, MPI_Datatype* datatype);

typedef int(MPI_Grequest_query_function)(void* extra_state, MPI_Status* status);
typedef int(MPI_Grequest_free_function)(void* extra_state);
typedef int(MPI_Grequest_cancel_function)(void* extra_state, int complete);

typedef int(MPI_Comm_copy_attr_function)(MPI_Comm comm, int keyval, void* extra_state,
                                         void* attribute_in, void* attribute_out, int* flag);
typedef int(MPI_Comm_delete_attr_function)(MPI_Comm comm, int keyval, void* attribute,
                                           void* extra_state);
typedef int(MPI_Type_copy_attr_function)(MPI_Datatype datatype, int keyval, void* extra_state,
                                         void* attribute_in, void* attribute_out, int* flag);
typedef int(MPI_Type_delete_attr_function)(MPI_Datatype datatype, int keyval, void* attribute,
                                           void* extra_state);
typedef int(MPI_Win_copy_attr_function)(MPI_Win win, int keyval, void* extra_state,
                                        void* attribute_in, void* attribute_out, int* flag);
typedef int(MPI_Win_delete_attr_function)(MPI_Win win, int keyval, void* attribute,
                                          void* extra_state);
typedef int(MPI_Copy_function)(MPI_Comm comm, int keyval, void* extra_state, void* attribute_in,
                               void* attribute_out, int* flag);
typedef int(MPI_Delete_function)(MPI_Comm comm, int keyval, void* attribute, void* extra_state);

typedef int(MPI_Datarep_extent_function)(MPI_Datatype datatype, MPI_Aint* extent,
                                         void* extra_state);
typedef int(MPI_Datarep_conversion_function)(void* user, MPI_Datatype datatype, int count,
                                             void* file, MPI_Offset position, void* extra_state);
typedef int(MPI_Datarep_conversion_function_c)(void* user, MPI_Datatype datatype, MPI_Count count,
                                               void* file, MPI_Offset position, void* extra_state);

typedef void(MPI_Comm_errhandler_function)(MPI_Comm* comm, int* error_code, ...);
typedef void(MPI_File_errhandler_function)(MPI_File* file, int* error_code, ...);
typedef void(MPI_Win_errhandler_function)(MPI_Win* win, int* error_code, ...);
typedef void(MPI_Session_errhandler_function)(MPI_Session* session, int* error_code, ...);
typedef MPI_Comm_errhandler_function MPI_Comm_errhandler_fn;
typedef MPI_File_errhandler_function MPI_File_errhandler_fn;
typedef MPI_Win_errhandler_function MPI_Win_errhandler_fn;
typedef MPI_Session_errhandler_function MPI_Session_errhandler_fn;

typedef void(MPI_T_event_cb_function)(MPI_T_event_instance instance,
                                      MPI_T_event_registration registration, MPI_T_cb_safety safety,
                                      void* user_data);
typedef void(MPI_T_event_free_cb_function)(MPI_T_event_registration registration,
                                           MPI_T_cb_safety safety, void* user_data);
typedef void(MPI_T_event_dropped_cb_function)(MPI_Count count,
                                              MPI_T_event_registration registration,
                                              int source_index, MPI_T_cb_safety safety,
                                              void* user_data);

#define MPI_NULL_COPY_FN ((MPI_Copy_function*)0)
#define MPI_DUP_FN ((MPI_Copy_function*)1)
#define MPI_NULL_DELETE_FN ((MPI_Delete_function*)0)
#define MPI_COMM_NULL_COPY_FN ((MPI_Comm_copy_attr_function*)0)
#define MPI_COMM_DUP_FN ((MPI_Comm_copy_attr_function*)1)
#define MPI_COMM_NULL_DELETE_FN ((MPI_Comm_delete_attr_function*)0)
#define MPI_TYPE_NULL_COPY_FN ((MPI_Type_copy_attr_function*)0)
#define MPI_TYPE_DUP_FN ((MPI_Type_copy_attr_function*)1)
#define MPI_TYPE_NULL_DELETE_FN ((MPI_Type_delete_attr_function*)0)
#define MPI_WIN_NULL_COPY_FN ((MPI_Win_copy_attr_function*)0)
#define MPI_WIN_DUP_FN ((MPI_Win_copy_attr_function*)1)
#define MPI_WIN_NULL_DELETE_FN ((MPI_Win_delete_attr_function*)0)
#define MPI_CONVERSION_FN_NULL ((MPI_Datarep_conversion_function*)0)
#define MPI_CONVERSION_FN_NULL_C ((MPI_Datarep_conversion_function_c*)0)

/* ---- functions ---- */

/* Every function has its name for tools, PMPI_, too. Those that this library does not have are
 * there to be linked: each is an error with its name. */
#define MPI_ABI_FUNCTION(result, name, arguments) \
  result MPI_##name arguments;                    \
  result PMPI_##name arguments;
#define MPI_ABI_MISSING(name, arguments) MPI_ABI_FUNCTION(int, name, arguments)

#include "mpi_functions.h"
#undef MPI_ABI_MISSING

/* Those that take counts are there with int, and with MPI_Count: MPI_Send_c. */
#define MPI_ABI_COUNTED(name, arguments) MPI_ABI_FUNCTION(int, name, arguments)
#define MPI_ABI_COUNTED_MISSING(name, arguments) MPI_ABI_COUNTED(name, arguments)
#define MPI_ABI_COUNT int
#define MPI_ABI_DISPLACEMENT int
#define MPI_ABI_ADDRESS MPI_Aint
#include "mpi_counted_functions.h"
#undef MPI_ABI_COUNTED
#undef MPI_ABI_COUNT
#undef MPI_ABI_DISPLACEMENT
#undef MPI_ABI_ADDRESS
#define MPI_ABI_COUNTED(name, arguments) MPI_ABI_FUNCTION(int, name##_c, arguments)
#define MPI_ABI_COUNT MPI_Count
#define MPI_ABI_DISPLACEMENT MPI_Aint
#define MPI_ABI_ADDRESS MPI_Count
#include "mpi_counted_functions.h"
#undef MPI_ABI_COUNTED
#undef MPI_ABI_COUNT
#undef MPI_ABI_DISPLACEMENT
#undef MPI_ABI_ADDRESS
#undef MPI_ABI_COUNTED_MISSING
#undef MPI_ABI_FUNCTION

/* Handles for Fortran are the numbers that the ABI gives them. */
#define MPI_Comm_c2f MPI_Comm_toint
#define PMPI_Comm_c2f PMPI_Comm_toint
#define MPI_Comm_f2c MPI_Comm_fromint
#define PMPI_Comm_f2c PMPI_Comm_fromint
#define MPI_Errhandler_c2f MPI_Errhandler_toint
#define PMPI_Errhandler_c2f PMPI_Errhandler_toint
#define MPI_Errhandler_f2c MPI_Errhandler_fromint
#define PMPI_Errhandler_f2c PMPI_Errhandler_fromint
#define MPI_File_c2f MPI_File_toint
#define PMPI_File_c2f PMPI_File_toint
#define MPI_File_f2c MPI_File_fromint
#define PMPI_File_f2c PMPI_File_fromint
#define MPI_Group_c2f MPI_Group_toint
#define PMPI_Group_c2f PMPI_Group_toint
#define MPI_Group_f2c MPI_Group_fromint
#define PMPI_Group_f2c PMPI_Group_fromint
#define MPI_Info_c2f MPI_Info_toint
#define PMPI_Info_c2f PMPI_Info_toint
#define MPI_Info_f2c MPI_Info_fromint
#define PMPI_Info_f2c PMPI_Info_fromint
#define MPI_Message_c2f MPI_Message_toint
#define PMPI_Message_c2f PMPI_Message_toint
#define MPI_Message_f2c MPI_Message_fromint
#define PMPI_Message_f2c PMPI_Message_fromint
#define MPI_Op_c2f MPI_Op_toint
#define PMPI_Op_c2f PMPI_Op_toint
#define MPI_Op_f2c MPI_Op_fromint
#define PMPI_Op_f2c PMPI_Op_fromint
#define MPI_Request_c2f MPI_Request_toint
#define PMPI_Request_c2f PMPI_Request_toint
#define MPI_Request_f2c MPI_Request_fromint
#define PMPI_Request_f2c PMPI_Request_fromint
#define MPI_Session_c2f MPI_Session_toint
#define PMPI_Session_c2f PMPI_Session_toint
#define MPI_Session_f2c MPI_Session_fromint
#define PMPI_Session_f2c PMPI_Session_fromint
#define MPI_Type_c2f MPI_Type_toint
#define PMPI_Type_c2f PMPI_Type_toint
#define MPI_Type_f2c MPI_Type_fromint
#define PMPI_Type_f2c PMPI_Type_fromint
#define MPI_Win_c2f MPI_Win_toint
#define PMPI_Win_c2f PMPI_Win_toint
#define MPI_Win_f2c MPI_Win_fromint
#define PMPI_Win_f2c PMPI_Win_fromint

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* QPMESH_MPI_H */
