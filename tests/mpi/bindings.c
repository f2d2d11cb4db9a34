// SPDX-License-Identifier: MIT
// What bindings for other languages are made of: handles as integers, statuses of Fortran, and what
// the ABI tells of itself. MPI 5.0 has it.
#include "check.h"

// Of each kind the null handle and a predefined one are their values; another one gets a number
// that is neither, keeps it, and is found by it.
#define KEEPS_ITS_NUMBER(Kind, handle)                                                      \
  SAYS("MPI_" #Kind "_fromint gives the handle back whose number MPI_" #Kind "_toint told", \
       MPI_##Kind##_fromint(MPI_##Kind##_toint(handle)) == (handle) &&                      \
           MPI_##Kind##_toint(handle) == MPI_##Kind##_toint(handle))
#define IS_ITS_VALUE(Kind, handle)                              \
  SAYS("the number of " #handle " is its value",                \
       MPI_##Kind##_toint(handle) == (int)(MPI_Aint)(handle) && \
           MPI_##Kind##_fromint((int)(MPI_Aint)(handle)) == (handle))

static void answer(MPI_Comm* comm, int* code, ...) { (void)comm, (void)code; }
static void keep(void* in, void* inout, int* count, MPI_Datatype* type) {
  (void)in, (void)inout, (void)count, (void)type;
}

static void predefined_handles(void) {
  IS_ITS_VALUE(Comm, MPI_COMM_NULL);
  IS_ITS_VALUE(Comm, MPI_COMM_WORLD);
  IS_ITS_VALUE(Comm, MPI_COMM_SELF);
  IS_ITS_VALUE(Errhandler, MPI_ERRHANDLER_NULL);
  IS_ITS_VALUE(Errhandler, MPI_ERRORS_RETURN);
  IS_ITS_VALUE(File, MPI_FILE_NULL);
  IS_ITS_VALUE(Group, MPI_GROUP_NULL);
  IS_ITS_VALUE(Group, MPI_GROUP_EMPTY);
  IS_ITS_VALUE(Info, MPI_INFO_NULL);
  IS_ITS_VALUE(Info, MPI_INFO_ENV);
  IS_ITS_VALUE(Message, MPI_MESSAGE_NULL);
  IS_ITS_VALUE(Message, MPI_MESSAGE_NO_PROC);
  IS_ITS_VALUE(Op, MPI_OP_NULL);
  IS_ITS_VALUE(Op, MPI_SUM);
  IS_ITS_VALUE(Request, MPI_REQUEST_NULL);
  IS_ITS_VALUE(Session, MPI_SESSION_NULL);
  IS_ITS_VALUE(Type, MPI_DATATYPE_NULL);
  IS_ITS_VALUE(Type, MPI_DOUBLE_INT);
  IS_ITS_VALUE(Win, MPI_WIN_NULL);
}

static void handles_of_the_program(void) {
  MPI_Comm comm, other;
  MPI_Errhandler handler;
  MPI_Group group;
  MPI_Info info;
  MPI_Message message;
  MPI_Op op;
  MPI_Request request, sent;
  MPI_Datatype type;
  int got = -1, ranks = -1, bytes = -1;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_dup(MPI_COMM_SELF, &other);
  KEEPS_ITS_NUMBER(Comm, comm);
  KEEPS_ITS_NUMBER(Comm, other);
  SAYS("two handles have two numbers", MPI_Comm_toint(comm) != MPI_Comm_toint(other));
  SAYS("and neither is that of a predefined one",
       MPI_Comm_toint(comm) != MPI_Comm_toint(MPI_COMM_WORLD) &&
           MPI_Comm_toint(other) != MPI_Comm_toint(MPI_COMM_NULL));
  MPI_Comm_size(MPI_Comm_fromint(MPI_Comm_toint(comm)), &ranks);
  SAYS("a handle from a number is used", ranks == size);
  MPI_Comm_create_errhandler(answer, &handler);
  KEEPS_ITS_NUMBER(Errhandler, handler);
  MPI_Comm_group(comm, &group);
  KEEPS_ITS_NUMBER(Group, group);
  MPI_Info_create(&info);
  KEEPS_ITS_NUMBER(Info, info);
  MPI_Op_create(keep, 1, &op);
  KEEPS_ITS_NUMBER(Op, op);
  MPI_Type_contiguous(3, MPI_INT, &type);
  KEEPS_ITS_NUMBER(Type, type);
  MPI_Type_size(MPI_Type_fromint(MPI_Type_toint(type)), &bytes);
  SAYS("so is a type's", bytes == 12);
  MPI_Irecv(&got, 1, MPI_INT, 0, 1, other, &request);
  KEEPS_ITS_NUMBER(Request, request);
  MPI_Isend(&rank, 1, MPI_INT, 0, 1, other, &sent);
  KEEPS_ITS_NUMBER(Request, sent);
  request = MPI_Request_fromint(MPI_Request_toint(request));
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Wait(&sent, MPI_STATUS_IGNORE);
  SAYS("and a request's", got == rank);
  MPI_Isend(&size, 1, MPI_INT, 0, 2, other, &sent);
  MPI_Mprobe(0, 2, other, &message, MPI_STATUS_IGNORE);
  KEEPS_ITS_NUMBER(Message, message);
  message = MPI_Message_fromint(MPI_Message_toint(message));
  MPI_Mrecv(&got, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
  MPI_Wait(&sent, MPI_STATUS_IGNORE);
  SAYS("and a message's", got == size);
  MPI_Type_free(&type);
  MPI_Op_free(&op);
  MPI_Info_free(&info);
  MPI_Group_free(&group);
  MPI_Errhandler_free(&handler);
  MPI_Comm_free(&other);
  MPI_Comm_free(&comm);
}

static void statuses(void) {
  const int mine[3] = {1, 2, 3};
  int got[4], cancelled = -1;
  MPI_Fint fortran[MPI_F_STATUS_SIZE + 1];
  MPI_Status status, back = untouched();
  for (int i = 0; i <= MPI_F_STATUS_SIZE; ++i) fortran[i] = -7;
  MPI_Sendrecv(mine, 3, MPI_INT, 0, 9, got, 4, MPI_INT, 0, 9, MPI_COMM_SELF, &status);
  status.MPI_ERROR = MPI_ERR_TAG;
  MPI_Status_c2f(&status, fortran);
  SAYS(
      "source, tag and error are where Fortran finds them",
      fortran[MPI_F_SOURCE] == 0 && fortran[MPI_F_TAG] == 9 && fortran[MPI_F_ERROR] == MPI_ERR_TAG);
  SAYS("and nothing behind is touched", fortran[MPI_F_STATUS_SIZE] == -7);
  MPI_Status_f2c(fortran, &back);
  MPI_Test_cancelled(&back, &cancelled);
  SAYS("what comes back is the same status", back.MPI_SOURCE == 0 && back.MPI_TAG == 9 &&
                                                 back.MPI_ERROR == MPI_ERR_TAG && cancelled == 0 &&
                                                 count_of(&back, MPI_INT) == 3);
}

// Of how many bytes a type is, as the ABI tells it; -1 where it does not.
static int size_told(MPI_Info info, const char* key) {
  char value[16] = "";
  int length = sizeof value, flag = 0;
  MPI_Info_get_string(info, key, &length, value, &flag);
  return flag ? atoi(value) : -1;
}

static void abi(void) {
  int major = -1, minor = -1;
  MPI_Info info = MPI_INFO_NULL;
  MPI_Abi_get_version(&major, &minor);
  SAYS("the ABI has the header's version", major == MPI_ABI_VERSION && minor == MPI_ABI_SUBVERSION);
  MPI_Abi_get_info(&info);
  SAYS("it tells the sizes of its types",
       size_told(info, "mpi_aint_size") == sizeof(MPI_Aint) &&
           size_told(info, "mpi_count_size") == sizeof(MPI_Count) &&
           size_told(info, "mpi_offset_size") == sizeof(MPI_Offset));
  MPI_Info_free(&info);
}

static void fortran_told_once(void) {
  MPI_Info info = MPI_INFO_ENV, given, freed;
  int yes = 0x1234, no = 0x4321, got_yes = -1, got_no = -1, is_set = -1, flag = 0;
  const signed char byte_yes = -1, byte_no = 0;
  signed char got_byte_yes = 5, got_byte_no = 5;
  char value[16] = "";
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Abi_get_fortran_info(&info);
  SAYS("nobody has told of Fortran's types", info == MPI_INFO_NULL);
  MPI_Info_create(&given);
  MPI_Info_set(given, "mpi_integer_size", "4");
  MPI_Info_create(&freed);
  const MPI_Info kept = freed;
  MPI_Info_free(&freed);
  SAYS("a binding tells of them", MPI_Abi_set_fortran_info(given) == MPI_SUCCESS);
  SAYS("what the library keeps of them is no handle of the program's",
       class_of(MPI_Info_set(kept, "mpi_integer_size", "2")) == MPI_ERR_INFO);
  MPI_Info_set(given, "mpi_integer_size", "8");
  MPI_Abi_get_fortran_info(&info);
  MPI_Info_get(info, "mpi_integer_size", 15, value, &flag);
  SAYS("they are as they were then", flag == 1 && strcmp(value, "4") == 0);
  MPI_Info_free(&info);
  SAYS("and are told once", class_of(MPI_Abi_set_fortran_info(given)) == MPI_ERR_ABI);
  MPI_Info_free(&given);
  MPI_Abi_get_fortran_booleans(4, &got_yes, &got_no, &is_set);
  SAYS("nobody has told of .TRUE. and .FALSE.", is_set == 0 && got_yes == -1 && got_no == -1);
  SAYS("a binding tells of them", MPI_Abi_set_fortran_booleans(4, &yes, &no) == MPI_SUCCESS);
  MPI_Abi_get_fortran_booleans(4, &got_yes, &got_no, &is_set);
  SAYS("then they are what they are", is_set == 1 && got_yes == yes && got_no == no);
  MPI_Abi_get_fortran_booleans(1, &got_byte_yes, &got_byte_no, &is_set);
  SAYS("those of another size are others", is_set == 0 && got_byte_yes == 5);
  MPI_Abi_set_fortran_booleans(1, (void*)&byte_yes, (void*)&byte_no);
  MPI_Abi_get_fortran_booleans(1, &got_byte_yes, &got_byte_no, &is_set);
  SAYS("and have their own", is_set == 1 && got_byte_yes == -1 && got_byte_no == 0);
  SAYS("each is told once", class_of(MPI_Abi_set_fortran_booleans(4, &yes, &no)) == MPI_ERR_ABI);
  SAYS("a size that no LOGICAL has is an error",
       class_of(MPI_Abi_get_fortran_booleans(3, &got_yes, &got_no, &is_set)) == MPI_ERR_ARG);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  const Scenario scenarios[] = {{"predefined_handles", predefined_handles, 1},
                                {"handles_of_the_program", handles_of_the_program, 1},
                                {"statuses", statuses, 1},
                                {"abi", abi, 1},
                                {"fortran_told_once", fortran_told_once, 1}};
  return RUN_SCENARIOS(scenarios, argc, argv);
}
