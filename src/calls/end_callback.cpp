// SPDX-License-Identifier: MIT
#include "calls/end_callback.hpp"

#include <utility>

namespace qpmesh::calls {
namespace {

void settle_and_free(RequestState* request) {
  try {
    settle(*request);
  } catch (...) {
    request->communicator->context().log().warning("a detached {} ended with: {}",
                                                   request->operation,
                                                   base::text_of(std::current_exception()));
  }
  RequestState::destroy(request);
}

progress::Task wait_and_call(std::shared_ptr<Watched> watched, std::function<void()> callback,
                             context::Context* context) {
  progress::Join join;
  const auto count = [&](progress::Operation& operation) {
    if (operation.done) return;
    ++join.outstanding;
    operation.join = &join;
  };
  PendingOperation& request = *watched->request;
  if (request.has_send) count(request.send);
  if (request.has_receive) count(request.receive);
  if (request.has_task) count(request.task);
  co_await progress::all_ended(join);
  if (watched->request != nullptr) land(*watched->request);
  if (callback) call_logged(callback, context->log());
  if (watched->waits()) context->resume_behind_call(watched);
  if (watched->request != nullptr && watched->detached) settle_and_free(watched->request);
}

}  // namespace

void call_logged(const std::function<void()>& callback, const base::Log& log) noexcept {
  try {
    callback();
  } catch (...) {
    log.warning("what is called at the end of a request threw: {}",
                base::text_of(std::current_exception()));
  }
}

void call_at_end(RequestState& request, std::function<void()> callback) {
  context::Context& context = request.communicator->context();
  auto& watched = request.keep().watched;
  watched = std::make_shared<Watched>(request);
  progress::TaskOperation& task = context.make_callback();
  context.engine().start(task,
                         [&] { return wait_and_call(watched, std::move(callback), &context); });
  if (!task.error) return;
  watched.reset();  // it was not made
  std::rethrow_exception(task.error);
}

std::shared_ptr<progress::Resumption> resume_at_end(RequestState& request, void* coroutine) {
  if (!request.keep().watched) {
    call_at_end(request, {});
    request.kept->watched->awaited = true;
  }
  const std::shared_ptr<Watched>& watched = request.kept->watched;
  if (!watched->awaited || watched->detached)
    bad_argument("co_await", "wait for it in that function", "the request has a function");
  if (watched->waits()) {
    bad_argument("co_await", "let one of them wait, and tell the other",
                 "another coroutine waits for the request");
  }
  watched->wait(coroutine);
  return watched;
}

std::shared_ptr<context::CommunicatorState> detach(RequestState& request) {
  if (!request.keep().watched) call_at_end(request, {});
  request.kept->watched->detached = true;
  return request.communicator->detach(request);
}

void finish_detached(context::CommunicatorState& communicator, std::string_view operation,
                     const CallOptions& options) {
  const std::int64_t timeout_ms = communicator.timeout_ms_of(options);
  const auto none = [&] { return !communicator.has_detached(); };
  if (none() || communicator.wait(none, operation, timeout_ms)) return;
  communicator.throw_vain_end(operation, timeout_ms);
}

}  // namespace qpmesh::calls
