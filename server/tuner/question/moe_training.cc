#include "server/tuner/question/moe_training.h"

#include <string_view>

#include "estimator/legality/legality.h"
#include "search_space/spec/choices.h"

namespace meshwright {
namespace {

// DeepEP's kernels reach at most eight devices over NVLink (deep_ep: NUM_MAX_NVL_PEERS); HybridEP's
// reach a whole rack (Megatron-Bridge, flex_dispatcher_backend.py: deepep on Ampere to B300,
// hybridep on GB200 and GB300).
constexpr int kMostDeepepDevices = 8;

// The release of Megatron-Core that brought --moe-flex-dispatcher-backend hybridep.
constexpr std::string_view kFirstWithHybridep = "0.15";

bool IsNvlink(LinkKind kind) {
  return kind == LinkKind::kNvlink3 || kind == LinkKind::kNvlink4 || kind == LinkKind::kNvlink5;
}

}  // namespace

MoeTraining UsualMoeTraining(const FrameworkProfile& profile, const NodePool& pool) {
  MoeTraining usual = profile.moe;
  const bool needs_nvlink =
      usual.dispatcher == MoeDispatcher::kDeepep || usual.dispatcher == MoeDispatcher::kHybridep;
  if (!needs_nvlink) return usual;
  if (!IsNvlink(pool.intra_node.kind)) {
    usual.dispatcher = MoeDispatcher::kAlltoall;
  } else if (pool.intra_node.domain_size > kMostDeepepDevices) {
    const bool has_hybridep =
        profile.name != "megatron-core" || !IsOlder(profile.version, kFirstWithHybridep);
    usual.dispatcher = has_hybridep ? MoeDispatcher::kHybridep : MoeDispatcher::kAlltoall;
  }
  return usual;
}

}  // namespace meshwright
