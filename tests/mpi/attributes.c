// SPDX-License-Identifier: MIT
// Attributes and their callbacks; what the environment says of itself.
#include "check.h"

static int copies, deletions, last_deleted, extra = 42;

static int copy_one_more(MPI_Comm comm, int key, void* state, void* value, void* new_value,
                         int* flag) {
  (void)comm, (void)key;
  ++copies;
  SAYS("callbacks get the extra state", state == &extra);
  *(void**)new_value = (char*)value + 1;
  *flag = 1;
  return MPI_SUCCESS;
}
static int forget(MPI_Comm comm, int key, void* value, void* state) {
  (void)comm, (void)key, (void)state;
  ++deletions;
  last_deleted = (int)(MPI_Aint)value;
  return MPI_SUCCESS;
}
static int refuse_copy(MPI_Comm comm, int key, void* state, void* value, void* new_value,
                       int* flag) {
  (void)comm, (void)key, (void)state, (void)value, (void)new_value;
  *flag = 0;
  return MPI_ERR_OTHER;
}
// state: how often it still refuses.
static int refuse_deletion(MPI_Comm comm, int key, void* value, void* state) {
  (void)comm, (void)key, (void)value;
  return (*(int*)state)-- > 0 ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static void of_communicators(void) {
  int key = -1, none = -1, same = -1, flag = -1;
  void* value = NULL;
  MPI_Comm_create_keyval(copy_one_more, forget, &key, &extra);
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &none, NULL);
  MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &same, NULL);
  MPI_Comm parent, child;
  MPI_Comm_dup(MPI_COMM_WORLD, &parent);
  MPI_Comm_get_attr(parent, key, &value, &flag);
  SAYS("an attribute that nobody set is not there", flag == 0);
  MPI_Comm_set_attr(parent, key, (void*)100);
  MPI_Comm_set_attr(parent, none, (void*)1);
  MPI_Comm_set_attr(parent, same, &extra);
  MPI_Comm_get_attr(parent, key, &value, &flag);
  SAYS("an attribute is there", flag == 1 && value == (void*)100);
  MPI_Comm_set_attr(parent, key, (void*)200);
  SAYS("setting it again deletes the old value", deletions == 1 && last_deleted == 100);
  MPI_Comm_dup(parent, &child);
  SAYS("dup calls the copy function once", copies == 1);
  MPI_Comm_get_attr(child, key, &value, &flag);
  SAYS("which gives the copy its value", flag == 1 && value == (void*)201);
  MPI_Comm_get_attr(child, none, &value, &flag);
  SAYS("NULL_COPY_FN does not copy", flag == 0);
  MPI_Comm_get_attr(child, same, &value, &flag);
  SAYS("DUP_FN copies the pointer", flag == 1 && value == &extra);
  MPI_Comm split;
  MPI_Comm_split(parent, 0, 0, &split);
  MPI_Comm_get_attr(split, key, &value, &flag);
  SAYS("a split has none", flag == 0 && copies == 1);
  MPI_Comm_free(&split);
  MPI_Comm_free(&child);
  SAYS("freeing calls the delete function", deletions == 2 && last_deleted == 201);
  MPI_Comm_delete_attr(parent, key);
  SAYS("so does deleting", deletions == 3 && last_deleted == 200);
  MPI_Comm_get_attr(parent, key, &value, &flag);
  SAYS("then it is gone", flag == 0);
  MPI_Comm_set_attr(parent, key, (void*)300);
  const int used = key;
  MPI_Comm_free_keyval(&key);
  SAYS("a freed key is MPI_KEYVAL_INVALID", key == MPI_KEYVAL_INVALID);
  (void)used;
  MPI_Comm_free(&parent);
  SAYS("values outlive their key: the delete function is still called",
       deletions == 4 && last_deleted == 300);
  MPI_Comm_free_keyval(&none);
  MPI_Comm_free_keyval(&same);
  // Idup copies, too.
  copies = 0;
  MPI_Comm_create_keyval(copy_one_more, forget, &key, &extra);
  MPI_Comm_dup(MPI_COMM_SELF, &parent);
  MPI_Comm_set_attr(parent, key, (void*)7);
  MPI_Request request;
  MPI_Comm_idup(parent, &child, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Comm_get_attr(child, key, &value, &flag);
  SAYS("idup copies attributes", copies == 1 && flag == 1 && value == (void*)8);
  MPI_Comm_free(&child);
  MPI_Comm_free(&parent);
  MPI_Comm_free_keyval(&key);
}

// Its ranks have given different lengths: every later call on it fails.
static MPI_Comm broken_communicator(void) {
  MPI_Comm comm;
  int in[2] = {1, 1}, out[2];
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Allreduce(in, out, rank == 0 ? 1 : 2, MPI_INT, MPI_SUM, comm);
  return comm;
}

static void idup_of_what_is_broken(void) {
  if (open_mpi || mpich) return;  // which would wait for the lengths to be alike
  int key = -1;
  MPI_Comm parent = broken_communicator(), child = MPI_COMM_SELF;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Comm_create_keyval(copy_one_more, forget, &key, &extra);
  MPI_Comm_set_attr(parent, key, (void*)7);
  copies = deletions = 0;
  SAYS("a broken communicator has no duplicate",
       MPI_Comm_idup(parent, &child, &request) != MPI_SUCCESS);
  SAYS("neither now nor later", child == MPI_COMM_NULL && request == MPI_REQUEST_NULL);
  SAYS("and what was copied for it is deleted", copies == 1 && deletions == 1 && last_deleted == 8);
  MPI_Comm_free(&parent);
  MPI_Comm_free_keyval(&key);
}

static void refusals(void) {
  int key = -1, flag = -1;
  void* value = NULL;
  MPI_Comm parent, child = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &parent);
  MPI_Comm_set_errhandler(parent, MPI_ERRORS_RETURN);
  int copied_before = -1;
  MPI_Comm_create_keyval(copy_one_more, forget, &copied_before, &extra);
  MPI_Comm_set_attr(parent, copied_before, NULL);
  MPI_Comm_create_keyval(refuse_copy, MPI_COMM_NULL_DELETE_FN, &key, NULL);
  MPI_Comm_set_attr(parent, key, &extra);
  copies = deletions = 0;
  SAYS("a copy function that fails makes dup fail", MPI_Comm_dup(parent, &child) != MPI_SUCCESS);
  if (!open_mpi && !mpich)
    SAYS("and what was copied before it is deleted", copies == 1 && deletions == 1);
  MPI_Comm_delete_attr(parent, copied_before);
  MPI_Comm_free_keyval(&copied_before);
  MPI_Comm_delete_attr(parent, key);
  MPI_Comm_free_keyval(&key);
  int refusals_left = 1;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, refuse_deletion, &key, &refusals_left);
  MPI_Comm_set_attr(parent, key, &extra);
  SAYS("a delete function that fails makes delete fail",
       MPI_Comm_delete_attr(parent, key) != MPI_SUCCESS);
  MPI_Comm_get_attr(parent, key, &value, &flag);
  if (!open_mpi) SAYS("and the attribute stays", flag == 1);
  if (!open_mpi && !mpich) {  // MPICH calls another handler than the communicator's
    refusals_left = 1;
    SAYS("a delete function that fails makes free fail", MPI_Comm_free(&parent) != MPI_SUCCESS);
    SAYS("and the communicator stays",
         parent != MPI_COMM_NULL && MPI_Comm_rank(parent, &flag) == MPI_SUCCESS);
  }
  MPI_Comm_free(&parent);
  SAYS("once it does not fail, the communicator goes", parent == MPI_COMM_NULL);
  MPI_Comm_free_keyval(&key);
}

static void freed_hints(void) {   // where a call fails of them, nothing was copied
  if (open_mpi || mpich) return;  // which use memory that is not theirs
#if MPI_VERSION >= 4
  int key = -1;
  MPI_Comm parent, child = MPI_COMM_NULL;
  MPI_Info info;
  MPI_Request request;
  MPI_Comm_dup(MPI_COMM_WORLD, &parent);
  MPI_Comm_set_errhandler(parent, MPI_ERRORS_RETURN);
  MPI_Comm_create_keyval(copy_one_more, forget, &key, &extra);
  MPI_Comm_set_attr(parent, key, NULL);
  MPI_Info_create(&info);
  const MPI_Info kept = info;
  MPI_Info_free(&info);
  copies = 0;
  SAYS("a freed info is an error of dup_with_info",
       class_of(MPI_Comm_dup_with_info(parent, kept, &child)) == MPI_ERR_INFO);
  SAYS("and no attribute was copied before", copies == 0 && child == MPI_COMM_NULL);
  SAYS("it is one of idup_with_info",
       class_of(MPI_Comm_idup_with_info(parent, kept, &child, &request)) == MPI_ERR_INFO);
  SAYS("and no attribute was copied before it", copies == 0 && child == MPI_COMM_NULL);
  MPI_Comm_free(&parent);
  MPI_Comm_free_keyval(&key);
#endif
}

static void by_their_first_names(void) {  // of MPI 1: deprecated, and the same attributes
  int key = MPI_KEYVAL_INVALID, same = MPI_KEYVAL_INVALID, none = MPI_KEYVAL_INVALID, flag = -1;
  int* highest = NULL;
  void* value = NULL;
  MPI_Comm parent, child;
  copies = deletions = 0;
  MPI_Keyval_create(copy_one_more, forget, &key, &extra);
  MPI_Keyval_create(MPI_DUP_FN, MPI_NULL_DELETE_FN, &same, NULL);
  MPI_Keyval_create(MPI_NULL_COPY_FN, MPI_NULL_DELETE_FN, &none, NULL);
  MPI_Comm_dup(MPI_COMM_WORLD, &parent);
  MPI_Attr_get(parent, key, &value, &flag);
  SAYS("Attr_get finds nothing where nothing was put", flag == 0);
  MPI_Attr_put(parent, key, (void*)10);
  MPI_Attr_put(parent, same, &extra);
  MPI_Attr_put(parent, none, &extra);
  MPI_Attr_get(parent, key, &value, &flag);
  SAYS("Attr_get finds what Attr_put put", flag == 1 && value == (void*)10);
  value = NULL;
  MPI_Comm_get_attr(parent, key, &value, &flag);
  SAYS("and so does Comm_get_attr", flag == 1 && value == (void*)10);
  MPI_Comm_dup(parent, &child);
  MPI_Attr_get(child, key, &value, &flag);
  SAYS("its copy function is called", copies == 1 && flag == 1 && value == (void*)11);
  MPI_Attr_get(child, same, &value, &flag);
  SAYS("MPI_DUP_FN copies", flag == 1 && value == &extra);
  MPI_Attr_get(child, none, &value, &flag);
  SAYS("MPI_NULL_COPY_FN does not", flag == 0);
  MPI_Comm_free(&child);
  SAYS("free deletes", deletions == 1 && last_deleted == 11);
  MPI_Attr_delete(parent, key);
  SAYS("Attr_delete calls the delete function", deletions == 2 && last_deleted == 10);
  MPI_Attr_get(parent, key, &value, &flag);
  SAYS("then it is gone", flag == 0);
  MPI_Attr_get(MPI_COMM_WORLD, MPI_TAG_UB, &highest, &flag);
  SAYS("Attr_get knows MPI_TAG_UB", flag == 1 && *highest >= 32767);
  MPI_Keyval_free(&key);
  MPI_Keyval_free(&same);
  MPI_Keyval_free(&none);
  SAYS("a freed key is MPI_KEYVAL_INVALID", key == MPI_KEYVAL_INVALID);
  MPI_Comm_free(&parent);
}

static int type_copies, type_deletions;
static int copy_of_type(MPI_Datatype type, int key, void* state, void* value, void* new_value,
                        int* flag) {
  (void)type, (void)key, (void)state;
  ++type_copies;
  *(void**)new_value = value;
  *flag = 1;
  return MPI_SUCCESS;
}
static int deletion_of_type(MPI_Datatype type, int key, void* value, void* state) {
  (void)type, (void)key, (void)value, (void)state;
  ++type_deletions;
  return MPI_SUCCESS;
}
static void of_types(void) {
  int key = -1, flag = -1;
  void* value = NULL;
  MPI_Datatype type, copy;
  MPI_Type_create_keyval(copy_of_type, deletion_of_type, &key, NULL);
  MPI_Type_contiguous(3, MPI_INT, &type);
  MPI_Type_set_attr(type, key, &extra);
  MPI_Type_dup(type, &copy);
  MPI_Type_get_attr(copy, key, &value, &flag);
  SAYS("types have attributes, which dup copies", flag == 1 && value == &extra && type_copies == 1);
  MPI_Type_delete_attr(type, key);
  MPI_Type_free(&copy);
  MPI_Type_free(&type);
  SAYS("and free deletes", type_deletions == 2);
  MPI_Type_free_keyval(&key);
}

static void predefined(void) {
  int* value = NULL;
  int flag = -1;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &flag);
  SAYS("MPI_TAG_UB", flag && *value >= 32767);
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, &value, &flag);
  SAYS("MPI_WTIME_IS_GLOBAL is 0 or 1", !flag || *value == 0 || *value == 1);
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &value, &flag);
  SAYS("MPI_UNIVERSE_SIZE, if set, is no less than the world", !flag || *value >= size || open_mpi);
  MPI_Comm copy;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Comm_get_attr(copy, MPI_TAG_UB, &value, &flag);
  SAYS("communicators have the highest tag, too", flag && *value >= 32767);
  MPI_Comm_free(&copy);
}

static void environment(void) {
  int version = -1, subversion = -1, length = -1, flag = -1, provided = -1;
  char text[MPI_MAX_LIBRARY_VERSION_STRING], name[MPI_MAX_PROCESSOR_NAME];
  MPI_Get_version(&version, &subversion);
  SAYS("Get_version says what the header says",
       version == MPI_VERSION && subversion == MPI_SUBVERSION);
  MPI_Get_library_version(text, &length);
  SAYS("the library has a version", length > 0 && ((int)strlen(text) == length || open_mpi));
  MPI_Get_processor_name(name, &length);
  SAYS("the processor has a name", length > 0 && (int)strlen(name) == length);
  const double tick = MPI_Wtick(), before = MPI_Wtime();
  double after = before;
  for (long i = 0; i < 100000000 && after == before; ++i) after = MPI_Wtime();
  SAYS("time goes on, in ticks", tick > 0 && tick < 1e-2 && after > before);
  MPI_Initialized(&flag);
  SAYS("Initialized", flag == 1);
  MPI_Finalized(&flag);
  SAYS("not Finalized", flag == 0);
  MPI_Query_thread(&provided);
  SAYS("Query_thread gives a level",
       provided >= MPI_THREAD_SINGLE && provided <= MPI_THREAD_MULTIPLE);
  MPI_Is_thread_main(&flag);
  SAYS("this is the main thread", flag == 1);
}

static void what_is_told_to_tools(void) {
  SAYS("Pcontrol of a level does nothing", MPI_Pcontrol(0) == MPI_SUCCESS);
  SAYS("whatever else it is told", MPI_Pcontrol(7, "text", 1.5) == MPI_SUCCESS);
#if MPI_IS_AT_LEAST(5, 0)
  MPI_Info hardware = MPI_INFO_NULL;
  int keys = -1;
  MPI_Get_hw_resource_info(&hardware);
  SAYS("of the hardware there are hints", hardware != MPI_INFO_NULL);
  MPI_Info_get_nkeys(hardware, &keys);
  for (int i = 0; i < keys; ++i) {
    char key[MPI_MAX_INFO_KEY], value[8] = "";
    int flag = 0, length = sizeof value;
    MPI_Info_get_nthkey(hardware, i, key);
    MPI_Info_get_string(hardware, key, &length, value, &flag);
    SAYS("each is a URI, and true or false",
         strchr(key, ':') != NULL && (strcmp(value, "true") == 0 || strcmp(value, "false") == 0));
  }
  MPI_Info_set(hardware, "mine", "true");
  MPI_Info_free(&hardware);
  MPI_Get_hw_resource_info(&hardware);
  int flag = -1, length = 0;
  MPI_Info_get_string(hardware, "mine", &length, NULL, &flag);
  SAYS("each call gives an object of its own", keys >= 0 && flag == 0);
  MPI_Info_free(&hardware);
#endif
}

#if MPI_IS_AT_LEAST(4, 1)
static void errors_that_are_removed(void) {
  int first = -1, code = -1, length = -1, found = -1;
  char text[MPI_MAX_ERROR_STRING];
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Add_error_class(&first);
  MPI_Add_error_code(first, &code);
  MPI_Add_error_string(code, "the tea is hot");
  SAYS("a text is removed", MPI_Remove_error_string(code) == MPI_SUCCESS);
  MPI_Error_string(code, text, &length);
  SAYS("then it is empty", length == 0 && text[0] == 0);
  SAYS("and cannot be removed", MPI_Remove_error_string(code) != MPI_SUCCESS);
  MPI_Add_error_string(code, "the tea is cold");
  MPI_Error_string(code, text, &length);
  SAYS("but given again", strcmp(text, "the tea is cold") == 0 && length == 15);
  SAYS("a class that has codes stays", MPI_Remove_error_class(first) != MPI_SUCCESS);
  SAYS("a class is no code", MPI_Remove_error_code(first) != MPI_SUCCESS);
  SAYS("and a code no class", MPI_Remove_error_class(code) != MPI_SUCCESS);
  SAYS("its codes are as before", class_of(code) == first);
  SAYS("a code is removed", MPI_Remove_error_code(code) == MPI_SUCCESS);
  SAYS("then there is none", MPI_Error_class(code, &found) != MPI_SUCCESS);
  SAYS("its class is still there", class_of(first) == first);
  SAYS("and is removed", MPI_Remove_error_class(first) == MPI_SUCCESS);
  SAYS("then there is none of this number", MPI_Error_class(first, &found) != MPI_SUCCESS &&
                                                MPI_Remove_error_class(first) != MPI_SUCCESS);
  SAYS("what is predefined stays", MPI_Remove_error_class(MPI_ERR_TAG) != MPI_SUCCESS &&
                                       MPI_Remove_error_code(MPI_ERR_TAG) != MPI_SUCCESS &&
                                       MPI_Remove_error_string(MPI_ERR_TAG) != MPI_SUCCESS);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
}
#endif

int main(int argc, char** argv) {
  begin(&argc, &argv);
  const Scenario scenarios[] = {
    {"of_communicators", of_communicators, 1},
    {"refusals", refusals, 1},
    {"idup_of_what_is_broken", idup_of_what_is_broken, 2},
    {"freed_hints", freed_hints, 1},
    {"by_their_first_names", by_their_first_names, 1},
    {"of_types", of_types, 1},
    {"predefined", predefined, 1},
    {"environment", environment, 1},
    {"what_is_told_to_tools", what_is_told_to_tools, 1},
#if MPI_IS_AT_LEAST(4, 1)
    {"errors_that_are_removed", errors_that_are_removed, 1},
#endif
  };
  return RUN_SCENARIOS(scenarios, argc, argv);
}
