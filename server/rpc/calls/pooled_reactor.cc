#include "server/rpc/calls/pooled_reactor.h"

#include <utility>

#include "server/convert/status_wire.h"
#include "server/rpc/calls/admission.h"
#include "server/rpc/calls/answer.h"

namespace meshwright {

PooledReactor* PooledReactor::Start(WorkPool& pool, const Call& call, Work work) {
  auto* reactor = new PooledReactor(pool, call, std::move(work));
  const absl::Status admitted = Admit(call.callers, call.context, call.method, call.request);
  if (!admitted.ok()) {
    reactor->Finish(ToGrpc(admitted));
    return reactor;
  }
  const absl::Status submitted = pool.Submit(
      {.run = [reactor] { reactor->Run(); }, .caller = call.context.peer(), .owner = reactor});
  if (!submitted.ok()) reactor->Finish(ToGrpc(submitted));
  return reactor;
}

PooledReactor::PooledReactor(WorkPool& pool, const Call& call, Work work)
    : pool_(pool), call_(call), work_(std::move(work)) {}

void PooledReactor::OnCancel() {
  cancel_.request_stop();
  if (pool_.TakeBack(this)) Finish(ToGrpc(absl::CancelledError("nobody waits for the answer")));
}

void PooledReactor::Run() {
  const absl::Status status =
      RunCall(call_.method, call_.request, [this] { return work_(cancel_.get_token()); });
  Finish(ToGrpc(status));  // last, because the reactor may be gone when this returns
}

}  // namespace meshwright
