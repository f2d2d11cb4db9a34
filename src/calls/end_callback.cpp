#include "calls/end_callback.hpp"

#include <utility>

namespace qpmesh::calls {
namespace {

progress::Task wait_and_call(PendingOperation* request, std::function<void()> callback,
                             const base::Log* log) {
  progress::Join join;
  const auto count = [&](progress::Operation& operation) {
    if (operation.done) return;
    ++join.outstanding;
    operation.join = &join;
  };
  if (request->has_send) count(request->send);
  if (request->has_receive) count(request->receive);
  if (request->has_task) count(request->task);
  co_await progress::all_ended(join);
  try {
    callback();
  } catch (...) {
    log->warning("what is called at the end of a request threw: {}",
                 text_of(std::current_exception()));
  }
}

}  // namespace

void call_at_end(RequestState& request, std::function<void()> callback) {
  context::Context& context = request.communicator->context();
  progress::TaskOperation& task = context.make_callback();
  context.engine().start(
      task, [&] { return wait_and_call(&request, std::move(callback), &context.log()); });
  if (task.error) std::rethrow_exception(task.error);  // it was not made
  request.keep().has_callback = true;
}

}  // namespace qpmesh::calls
