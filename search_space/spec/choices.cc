#include "search_space/spec/choices.h"

namespace meshwright {

// The words of requests and answers, with one table per set. NodeTopology and Confidence are words
// of chip files.

template <>
std::span<const ChoiceWord<MlpKind>> Choices<MlpKind>() {
  static constexpr ChoiceWord<MlpKind> kTable[] = {
      {MlpKind::kGelu, "gelu"},   {MlpKind::kSwiglu, "swiglu"},
      {MlpKind::kGeglu, "geglu"}, {MlpKind::kQuickGeglu, "quick_geglu"},
      {MlpKind::kRelu, "relu"},   {MlpKind::kSquaredRelu, "squared_relu"},
  };
  return kTable;
}

template <>
std::span<const ChoiceWord<LinearBiases>> Choices<LinearBiases>() {
  static constexpr ChoiceWord<LinearBiases> kTable[] = {
      {LinearBiases::kNone, "none"},
      {LinearBiases::kQkv, "qkv"},
      {LinearBiases::kAttention, "attention"},
      {LinearBiases::kFeedForward, "feed_forward"},
      {LinearBiases::kAll, "all"},
  };
  return kTable;
}

template <>
std::span<const ChoiceWord<NormKind>> Choices<NormKind>() {
  static constexpr ChoiceWord<NormKind> kTable[] = {
      {NormKind::kLayernorm, "layernorm"},
      {NormKind::kRmsnorm, "rmsnorm"},
  };
  return kTable;
}

template <>
std::span<const ChoiceWord<RouterScore>> Choices<RouterScore>() {
  static constexpr ChoiceWord<RouterScore> kTable[] = {
      {RouterScore::kSoftmax, "softmax"},
      {RouterScore::kSigmoid, "sigmoid"},
  };
  return kTable;
}

template <>
std::span<const ChoiceWord<RopeScalingKind>> Choices<RopeScalingKind>() {
  static constexpr ChoiceWord<RopeScalingKind> kTable[] = {
      {RopeScalingKind::kYarn, "yarn"},
      {RopeScalingKind::kLlama3, "llama3"},
  };
  return kTable;
}

template <>
std::span<const ChoiceWord<TokenMixer>> Choices<TokenMixer>() {
  static constexpr ChoiceWord<TokenMixer> kTable[] = {
      {TokenMixer::kAttention, "attention"},
      {TokenMixer::kLinearAttention, "linear_attention"},
      {TokenMixer::kStateSpace, "state_space"},
      {TokenMixer::kAttentionAndStateSpace, "attention_and_state_space"},
      {TokenMixer::kNone, "none"},
  };
  return kTable;
}

template <>
std::span<const ChoiceWord<FeedForwardKind>> Choices<FeedForwardKind>() {
  static constexpr ChoiceWord<FeedForwardKind> kTable[] = {
      {FeedForwardKind::kDense, "dense"},
      {FeedForwardKind::kExperts, "experts"},
      {FeedForwardKind::kNone, "none"},
  };
  return kTable;
}

template <>
std::span<const ChoiceWord<LinearAttentionKind>> Choices<LinearAttentionKind>() {
  static constexpr ChoiceWord<LinearAttentionKind> kTable[] = {
      {LinearAttentionKind::kLightning, "lightning"},
      {LinearAttentionKind::kGatedDelta, "gated_delta"},
      {LinearAttentionKind::kKimiDelta, "kimi_delta"},
  };
  return kTable;
}

template <>
std::span<const ChoiceWord<Precision>> Choices<Precision>() {
  static constexpr ChoiceWord<Precision> kTable[] = {
      {Precision::kBf16, "bf16"},
      {Precision::kFp16, "fp16"},
      {Precision::kFp8, "fp8"},
      {Precision::kFp32, "fp32"},
  };
  return kTable;
}

template <>
std::span<const ChoiceWord<GradientDtype>> Choices<GradientDtype>() {
  static constexpr ChoiceWord<GradientDtype> kTable[] = {
      {GradientDtype::kFp32, "fp32"},
      {GradientDtype::kBf16, "bf16"},
      {GradientDtype::kFp16, "fp16"},
  };
  return kTable;
}

template <>
std::span<const ChoiceWord<Fp8Recipe>> Choices<Fp8Recipe>() {
  static constexpr ChoiceWord<Fp8Recipe> kTable[] = {
      {Fp8Recipe::kTensorwise, "tensorwise"}, {Fp8Recipe::kRowwise, "rowwise"},
      {Fp8Recipe::kBlockwise, "blockwise"},   {Fp8Recipe::kDelayed, "delayed"},
      {Fp8Recipe::kMxfp8, "mxfp8"},
  };
  return kTable;
}

template <>
std::span<const ChoiceWord<AttentionKernel>> Choices<AttentionKernel>() {
  static constexpr ChoiceWord<AttentionKernel> kTable[] = {
      {AttentionKernel::kUnfused, "unfused"}, {AttentionKernel::kFusedSoftmax, "fused_softmax"},
      {AttentionKernel::kFlash1, "flash1"},   {AttentionKernel::kFlash2, "flash2"},
      {AttentionKernel::kFlash3, "flash3"},   {AttentionKernel::kCudnn, "cudnn"},
      {AttentionKernel::kVendor, "vendor"},
  };
  return kTable;
}

template <>
std::span<const ChoiceWord<KernelFusion>> Choices<KernelFusion>() {
  static constexpr ChoiceWord<KernelFusion> kTable[] = {
      {KernelFusion::kUnfused, "unfused"},
      {KernelFusion::kFused, "fused"},
  };
  return kTable;
}

template <>
std::span<const ChoiceWord<MoeDispatcher>> Choices<MoeDispatcher>() {
  static constexpr ChoiceWord<MoeDispatcher> kTable[] = {
      {MoeDispatcher::kAllgather, "allgather"},
      {MoeDispatcher::kAlltoall, "alltoall"},
      {MoeDispatcher::kDeepep, "deepep"},
      {MoeDispatcher::kHybridep, "hybridep"},
  };
  return kTable;
}

template <>
std::span<const ChoiceWord<DispatchDtype>> Choices<DispatchDtype>() {
  static constexpr ChoiceWord<DispatchDtype> kTable[] = {
      {DispatchDtype::kBf16, "bf16"},
      {DispatchDtype::kFp8, "fp8"},
  };
  return kTable;
}

template <>
std::span<const ChoiceWord<Optimizer>> Choices<Optimizer>() {
  static constexpr ChoiceWord<Optimizer> kTable[] = {
      {Optimizer::kAdam, "adam"},
      {Optimizer::kAdam8bit, "adam8bit"},
      {Optimizer::kSgd, "sgd"},
  };
  return kTable;
}

template <>
std::span<const ChoiceWord<Schedule>> Choices<Schedule>() {
  static constexpr ChoiceWord<Schedule> kTable[] = {
      {Schedule::kGpipe, "gpipe"},
      {Schedule::k1f1b, "1f1b"},
      {Schedule::kInterleaved1f1b, "interleaved_1f1b"},
      {Schedule::kZbH1, "zb_h1"},
      {Schedule::kZbV, "zb_v"},
      {Schedule::kDualpipe, "dualpipe"},
      {Schedule::kDualpipeV, "dualpipe_v"},
      {Schedule::kChimera, "chimera"},
  };
  return kTable;
}

template <>
std::span<const ChoiceWord<ContextParallelKind>> Choices<ContextParallelKind>() {
  static constexpr ChoiceWord<ContextParallelKind> kTable[] = {
      {ContextParallelKind::kRing, "ring"},
      {ContextParallelKind::kUlysses, "ulysses"},
      {ContextParallelKind::kAllGather, "all_gather"},
      {ContextParallelKind::kHybrid, "hybrid"},
  };
  return kTable;
}

template <>
std::span<const ChoiceWord<RecomputeGranularity>> Choices<RecomputeGranularity>() {
  static constexpr ChoiceWord<RecomputeGranularity> kTable[] = {
      {RecomputeGranularity::kNone, "none"},
      {RecomputeGranularity::kSelective, "selective"},
      {RecomputeGranularity::kFull, "full"},
  };
  return kTable;
}

template <>
std::span<const ChoiceWord<RankOrder>> Choices<RankOrder>() {
  static constexpr ChoiceWord<RankOrder> kTable[] = {
      {RankOrder::kTpCpEpDpPp, "tp-cp-ep-dp-pp"},
      {RankOrder::kTpCpEpPpDp, "tp-cp-ep-pp-dp"},
  };
  return kTable;
}

template <>
std::span<const ChoiceWord<LinkKind>> Choices<LinkKind>() {
  static constexpr ChoiceWord<LinkKind> kTable[] = {
      {LinkKind::kNvlink2, "nvlink2"},
      {LinkKind::kNvlink3, "nvlink3"},
      {LinkKind::kNvlink4, "nvlink4"},
      {LinkKind::kNvlink5, "nvlink5"},
      {LinkKind::kXgmi, "xgmi"},
      {LinkKind::kHccs, "hccs"},
      {LinkKind::kPcie4, "pcie4"},
      {LinkKind::kPcie5, "pcie5"},
      {LinkKind::kIci, "ici"},
      {LinkKind::kNeuronlink, "neuronlink"},
      {LinkKind::kInfiniband, "infiniband"},
      {LinkKind::kRoce, "roce"},
      {LinkKind::kEthernet, "ethernet"},
      {LinkKind::kOmnipath, "omnipath"},
      {LinkKind::kEfa, "efa"},
      {LinkKind::kVendor, "vendor"},
  };
  return kTable;
}

template <>
std::span<const ChoiceWord<NodeTopology>> Choices<NodeTopology>() {
  static constexpr ChoiceWord<NodeTopology> kTable[] = {
      {NodeTopology::kSwitched, "switched"},  {NodeTopology::kFullMesh, "full_mesh"},
      {NodeTopology::kRing, "ring"},          {NodeTopology::kTorus, "torus"},
      {NodeTopology::kPcieTree, "pcie_tree"}, {NodeTopology::kRackSwitched, "rack_switched"},
  };
  return kTable;
}

template <>
std::span<const ChoiceWord<LinkPath>> Choices<LinkPath>() {
  static constexpr ChoiceWord<LinkPath> kTable[] = {{LinkPath::kDirect, "direct"},
                                                    {LinkPath::kHost, "host"}};
  return kTable;
}

template <>
std::span<const ChoiceWord<ClusterTopology>> Choices<ClusterTopology>() {
  static constexpr ChoiceWord<ClusterTopology> kTable[] = {
      {ClusterTopology::kRailOptimized, "rail_optimized"}, {ClusterTopology::kFatTree, "fat_tree"},
      {ClusterTopology::kFullMesh, "full_mesh"},           {ClusterTopology::kTorus, "torus"},
      {ClusterTopology::kSingleSwitch, "single_switch"},
  };
  return kTable;
}

template <>
std::span<const ChoiceWord<Provenance>> Choices<Provenance>() {
  static constexpr ChoiceWord<Provenance> kTable[] = {
      {Provenance::kMeasured, "measured"}, {Provenance::kTransferred, "transferred"},
      {Provenance::kFitted, "fitted"},     {Provenance::kPublished, "published"},
      {Provenance::kAssumed, "assumed"},
  };
  return kTable;
}

template <>
std::span<const ChoiceWord<Tier>> Choices<Tier>() {
  static constexpr ChoiceWord<Tier> kTable[] = {
      {Tier::kClosedForm, "closed_form"},
      {Tier::kSimulated, "simulated"},
  };
  return kTable;
}

template <>
std::span<const ChoiceWord<Outcome>> Choices<Outcome>() {
  static constexpr ChoiceWord<Outcome> kTable[] = {
      {Outcome::kOk, "ok"},     {Outcome::kOom, "oom"},         {Outcome::kCrash, "crash"},
      {Outcome::kHang, "hang"}, {Outcome::kTimeout, "timeout"}, {Outcome::kCancelled, "cancelled"},
  };
  return kTable;
}

template <>
std::span<const ChoiceWord<Confidence>> Choices<Confidence>() {
  static constexpr ChoiceWord<Confidence> kTable[] = {
      {Confidence::kHigh, "high"},
      {Confidence::kMedium, "medium"},
      {Confidence::kLow, "low"},
  };
  return kTable;
}

}  // namespace meshwright
