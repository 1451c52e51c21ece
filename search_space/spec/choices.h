#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace meshwright {

// The closed sets of the vocabulary. Each has one table of its lower-case words (choices.cc), which
// every edge (JSON, protobuf, CLI, SQL) uses. Sets that only one folder knows, such as a solver of
// placements, have their words there.

// The feed-forward. Those whose names end in "glu" are gated; kQuickGeglu has x sigmoid(1.702 x) as
// its function (gpt-oss).
enum class MlpKind { kGelu, kSwiglu, kGeglu, kQuickGeglu, kRelu, kSquaredRelu };
// The linear layers that have a bias: those of queries, keys and values; those and attention's
// output; those of the feed-forward, with its experts and their router.
enum class LinearBiases { kNone, kQkv, kAttention, kFeedForward, kAll };
enum class NormKind { kLayernorm, kRmsnorm };
// The function that makes scores of a router's outputs.
enum class RouterScore { kSoftmax, kSigmoid };
// The ways to stretch rotary positions: YaRN (arXiv 2309.00071), and by wavelength as Llama 3.1
// does.
enum class RopeScalingKind { kYarn, kLlama3 };
// The part of a layer that mixes its tokens.
enum class TokenMixer {
  kAttention,
  kLinearAttention,
  kStateSpace,
  kAttentionAndStateSpace,  // side by side, on the same input
  kNone
};
enum class FeedForwardKind { kDense, kExperts, kNone };
// The recurrences of linear attention: fixed decay (lightning attention), gated delta rule with one
// decay a head, and with one decay a channel (Kimi Delta Attention).
enum class LinearAttentionKind { kLightning, kGatedDelta, kKimiDelta };
enum class Precision { kBf16, kFp16, kFp8, kFp32 };
enum class GradientDtype { kFp32, kBf16, kFp16 };
enum class Fp8Recipe { kTensorwise, kRowwise, kBlockwise, kDelayed, kMxfp8 };
enum class AttentionKernel { kUnfused, kFusedSoftmax, kFlash1, kFlash2, kFlash3, kCudnn, kVendor };
enum class KernelFusion { kUnfused, kFused };
// The way in which tokens come to their experts: all tokens to all ranks, one copy for each expert,
// or one copy for each rank and, between nodes, for each node (DeepEP, HybridEP).
enum class MoeDispatcher { kAllgather, kAlltoall, kDeepep, kHybridep };
enum class DispatchDtype { kBf16, kFp8 };
enum class Optimizer { kAdam, kAdam8bit, kSgd };
enum class Schedule {
  kGpipe,
  k1f1b,
  kInterleaved1f1b,
  kZbH1,
  kZbV,
  kDualpipe,
  kDualpipeV,
  kChimera
};
enum class ContextParallelKind { kRing, kUlysses, kAllGather, kHybrid };
enum class RecomputeGranularity { kNone, kSelective, kFull };
// How ranks are numbered, with the fastest-changing dimension first: the stages of a pipeline lie
// either outside the ranks of data parallelism or between them.
enum class RankOrder { kTpCpEpDpPp, kTpCpEpPpDp };
// The way of messages between two pools: from device to device, or through the memory of both
// hosts.
enum class LinkPath { kDirect, kHost };
enum class LinkKind {
  kNvlink2,
  kNvlink3,
  kNvlink4,
  kNvlink5,
  kXgmi,
  kHccs,
  kPcie4,
  kPcie5,
  kIci,
  kNeuronlink,
  kInfiniband,
  kRoce,
  kEthernet,
  kOmnipath,
  kEfa,
  kVendor
};
// The wiring of the devices in one scale-up domain.
enum class NodeTopology { kSwitched, kFullMesh, kRing, kTorus, kPcieTree, kRackSwitched };
// The wiring of the nodes (`topology.kind` of a cluster).
enum class ClusterTopology { kRailOptimized, kFatTree, kFullMesh, kTorus, kSingleSwitch };
enum class Provenance { kMeasured, kTransferred, kFitted, kPublished, kAssumed };
enum class Tier { kClosedForm, kSimulated };
enum class Outcome { kOk, kOom, kCrash, kHang, kTimeout, kCancelled };
enum class Confidence { kHigh, kMedium, kLow };

template <typename Enum>
struct ChoiceWord {
  Enum value;
  std::string_view word;
};

// The table of a closed set, in the order in which users see its words.
template <typename Enum>
std::span<const ChoiceWord<Enum>> Choices();

template <>
std::span<const ChoiceWord<MlpKind>> Choices<MlpKind>();
template <>
std::span<const ChoiceWord<LinearBiases>> Choices<LinearBiases>();
template <>
std::span<const ChoiceWord<NormKind>> Choices<NormKind>();
template <>
std::span<const ChoiceWord<TokenMixer>> Choices<TokenMixer>();
template <>
std::span<const ChoiceWord<FeedForwardKind>> Choices<FeedForwardKind>();
template <>
std::span<const ChoiceWord<LinearAttentionKind>> Choices<LinearAttentionKind>();
template <>
std::span<const ChoiceWord<Precision>> Choices<Precision>();
template <>
std::span<const ChoiceWord<GradientDtype>> Choices<GradientDtype>();
template <>
std::span<const ChoiceWord<Fp8Recipe>> Choices<Fp8Recipe>();
template <>
std::span<const ChoiceWord<AttentionKernel>> Choices<AttentionKernel>();
template <>
std::span<const ChoiceWord<KernelFusion>> Choices<KernelFusion>();
template <>
std::span<const ChoiceWord<MoeDispatcher>> Choices<MoeDispatcher>();
template <>
std::span<const ChoiceWord<DispatchDtype>> Choices<DispatchDtype>();
template <>
std::span<const ChoiceWord<Optimizer>> Choices<Optimizer>();
template <>
std::span<const ChoiceWord<Schedule>> Choices<Schedule>();
template <>
std::span<const ChoiceWord<ContextParallelKind>> Choices<ContextParallelKind>();
template <>
std::span<const ChoiceWord<RecomputeGranularity>> Choices<RecomputeGranularity>();
template <>
std::span<const ChoiceWord<RankOrder>> Choices<RankOrder>();
template <>
std::span<const ChoiceWord<LinkKind>> Choices<LinkKind>();
template <>
std::span<const ChoiceWord<LinkPath>> Choices<LinkPath>();
template <>
std::span<const ChoiceWord<NodeTopology>> Choices<NodeTopology>();
template <>
std::span<const ChoiceWord<ClusterTopology>> Choices<ClusterTopology>();
template <>
std::span<const ChoiceWord<Provenance>> Choices<Provenance>();
template <>
std::span<const ChoiceWord<Tier>> Choices<Tier>();
template <>
std::span<const ChoiceWord<Outcome>> Choices<Outcome>();
template <>
std::span<const ChoiceWord<Confidence>> Choices<Confidence>();

// Returns true if a feed-forward has a matrix more, whose product gates the other one's.
constexpr bool IsGated(MlpKind mlp) {
  return mlp == MlpKind::kSwiglu || mlp == MlpKind::kGeglu || mlp == MlpKind::kQuickGeglu;
}

template <typename Enum>
std::string_view Word(Enum value) {
  for (const auto& choice : Choices<Enum>()) {
    if (choice.value == value) return choice.word;
  }
  return "";
}

template <typename Enum>
std::optional<Enum> ParseChoice(std::string_view word) {
  for (const auto& choice : Choices<Enum>()) {
    if (choice.word == word) return choice.value;
  }
  return std::nullopt;
}

// Returns the words that an error message names as allowed: "bf16, fp16, fp8, fp32".
template <typename Enum>
std::string AllowedWords() {
  std::string words;
  for (const auto& choice : Choices<Enum>()) {
    if (!words.empty()) words += ", ";
    words += choice.word;
  }
  return words;
}

}  // namespace meshwright
