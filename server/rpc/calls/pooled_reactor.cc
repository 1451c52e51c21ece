#include "server/rpc/calls/pooled_reactor.h"

#include <utility>

#include "server/convert/status_wire.h"
#include "server/rpc/calls/admission.h"

namespace meshwright {

PooledReactor* PooledReactor::Start(WorkPool& pool, const IncomingCall& call, Work work) {
  auto* reactor = new PooledReactor(pool, call, std::move(work));
  const absl::Status admitted = Admit(call.reception.callers, reactor->call_);
  if (!admitted.ok()) {
    reactor->Refuse(admitted);
    return reactor;
  }
  const absl::Status submitted = pool.Submit(
      {.run = [reactor] { reactor->Run(); }, .caller = call.context.peer(), .owner = reactor});
  if (!submitted.ok()) reactor->Refuse(submitted);
  return reactor;
}

PooledReactor::PooledReactor(WorkPool& pool, const IncomingCall& call, Work work)
    : pool_(pool), reception_(call.reception), call_(Arrive(call)), work_(std::move(work)) {}

void PooledReactor::OnCancel() {
  cancel_.request_stop();
  if (pool_.TakeBack(this)) Refuse(absl::CancelledError("nobody waits for the answer"));
}

void PooledReactor::Refuse(const absl::Status& status) {
  EndCall(reception_, call_, status);
  Finish(ToGrpc(status));
}

void PooledReactor::Run() {
  const absl::Status status =
      RunCall(reception_, call_, [this] { return work_(cancel_.get_token()); });
  Finish(ToGrpc(status));  // last, because the reactor may be gone when this returns
}

}  // namespace meshwright
