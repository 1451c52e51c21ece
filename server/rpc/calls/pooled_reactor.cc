#include "server/rpc/calls/pooled_reactor.h"

#include <utility>

#include "server/convert/status_wire.h"
#include "server/rpc/calls/answer.h"

namespace meshwright {

PooledReactor* PooledReactor::Start(WorkPool& pool, const char* method,
                                    const google::protobuf::Message& request, Work work) {
  auto* reactor = new PooledReactor(method, request, std::move(work));
  const absl::Status submitted = pool.Submit([reactor] { reactor->Run(); });
  if (!submitted.ok()) reactor->Finish(ToGrpc(submitted));
  return reactor;
}

PooledReactor::PooledReactor(const char* method, const google::protobuf::Message& request,
                             Work work)
    : method_(method), request_(request), work_(std::move(work)) {}

void PooledReactor::Run() {
  const absl::Status status =
      RunCall(method_, request_, [this] { return work_(cancel_.get_token()); });
  Finish(ToGrpc(status));  // last, because the reactor may be gone when this returns
}

}  // namespace meshwright
