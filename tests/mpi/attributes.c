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

int main(int argc, char** argv) {
  begin(&argc, &argv);
  const Scenario scenarios[] = {{"of_communicators", of_communicators, 1},
                                {"refusals", refusals, 1},
                                {"of_types", of_types, 1},
                                {"predefined", predefined, 1},
                                {"environment", environment, 1}};
  return RUN_SCENARIOS(scenarios, argc, argv);
}
