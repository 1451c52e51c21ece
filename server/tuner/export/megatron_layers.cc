#include "server/tuner/export/megatron_layers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/legality/legality.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/layer_list.h"
#include "search_space/spec/workload.h"
#include "server/tuner/export/model_family.h"
#include "server/tuner/question/framework_choice.h"

namespace meshwright {
namespace {

// Returns the windows of the model's layers, each once; 0: full attention.
std::set<int> WindowsOf(const ModelSpec& model) {
  std::set<int> windows;
  for (const LayerRun& run : RunsOf(model)) windows.insert(run.kind.sliding_window);
  return windows;
}

// Returns a list such as "'([0]*3+[1]*58)'", with 1 for each layer of which `has` is true.
template <typename Has>
std::string ListOf(const std::vector<LayerRun>& runs, const Has& has) {
  std::vector<std::string> parts;
  bool is_last_one = false;
  int count = 0;
  const auto flush = [&] {
    if (count > 0) parts.push_back(fmt::format("[{}]*{}", is_last_one ? 1 : 0, count));
  };
  for (const LayerRun& run : runs) {
    if (has(run) != is_last_one) {
      flush();
      count = 0;
      is_last_one = has(run);
    }
    count += run.count;
  }
  flush();
  return fmt::format("'({})'", fmt::join(parts, "+"));
}

// Refuses what the layers of some models have and pretrain_gpt.py does not build.
void RefuseMegatronForms(const ModelSpec& model, FlagList& flags) {
  if (model.post_norms) {
    flags.Refuse("model.post_norms",
                 "true; Megatron-Core has no norms after attention and feed-forward");
  }
  if (!model.pre_norms) {
    flags.Refuse("model.pre_norms",
                 "false; Megatron-Core has norms before attention and feed-forward");
  }
  if (model.qk_norm_spans_heads) {
    flags.Refuse("model.qk_norm_spans_heads",
                 "true; Megatron-Core's --qk-layernorm has a norm of each head");
  }
  if (model.parallel_feed_forward) {
    flags.Refuse("model.parallel_feed_forward",
                 "true; Megatron-Core's feed-forward reads the output of attention");
  }
  if (model.attention_soft_cap.has_value()) {
    flags.Refuse("model.attention_soft_cap",
                 fmt::format("{}; Megatron-Core does not bound the scores of attention",
                             *model.attention_soft_cap));
  }
  if (model.output_soft_cap.has_value()) {
    flags.Refuse("model.output_soft_cap", fmt::format("{}; Megatron-Core does not bound the logits",
                                                      *model.output_soft_cap));
  }
}

}  // namespace

void RefuseMegatronLayers(const ModelSpec& model, FlagList& flags) {
  const LayerList layers(model);
  LayerKind plain = layers.kinds().front();
  for (LayerKind kind : layers.kinds()) {
    kind.feed_forward = plain.feed_forward;
    kind.ffn_hidden_size = plain.ffn_hidden_size;
    kind.sliding_window = plain.sliding_window;
    if (kind == plain) continue;
    flags.Refuse("model.layers",
                 "layers whose attention differs in more than its window; pretrain_gpt.py builds "
                 "one kind");
    break;
  }
  std::set<int> windows = WindowsOf(model);
  windows.erase(0);
  if (windows.size() > 1) {
    flags.Refuse("model.layers", fmt::format("windows of {} tokens; Megatron-Core has one size",
                                             fmt::join(windows, ", ")));
  }
  const bool is_plain = plain.mixer == TokenMixer::kAttention && !plain.is_chunked &&
                        plain.v_head_dim == plain.head_dim && !plain.values_are_keys;
  if (!is_plain) {
    flags.Refuse("model.layers", fmt::format("layers of {} that pretrain_gpt.py does not build",
                                             Word(plain.mixer)));
  }
  if (model.mla.has_value() && model.mla->index_head_count > 0) {
    flags.Refuse("model.mla.index_head_count",
                 fmt::format("{}; Megatron-Core up to 0.14 has no sparse attention",
                             model.mla->index_head_count));
  }
  if (model.attention_output_gate) {
    flags.Refuse("model.attention_output_gate",
                 "true; Megatron-Core up to 0.14 has no gate on the output of attention");
  }
  RefuseMegatronForms(model, flags);
}

void RefuseLaterParts(const Problem& problem, FlagList& flags) {
  const std::string& version = problem.workload.framework_version;
  const std::vector<ModelPart> parts = PartsOfLaterMegatron(problem.model);
  if (parts.empty()) return;
  if (problem.profile.name != "megatron-core") {
    for (const ModelPart& part : parts) {
      flags.Refuse(part.field,
                   fmt::format("{}; only Megatron-Core from {} on is known to have flags for them",
                               part.what, kLaterMegatron));
    }
    return;
  }
  if (!IsOlder(version, kLaterMegatron)) return;
  std::vector<std::string_view> all;
  for (const ModelPart& part : parts) all.push_back(part.what);
  flags.Refuse("workload.framework.version",
               fmt::format("{}; Megatron-Core has {} only from {} on", version,
                           fmt::join(all, ", "), kLaterMegatron));
}

void AddMegatronWindows(const ModelSpec& model, FlagList& flags) {
  const std::set<int> windows = WindowsOf(model);
  if (*windows.rbegin() == 0) return;
  // (left, right), without the token itself
  flags.Add("--window-size", fmt::format("{},0", *windows.rbegin() - 1));
  if (windows.size() == 1) return;
  const std::vector<LayerRun> runs = RunsOf(model);
  const int interval = FullAttentionInterval(model);
  if (interval > 1) {
    flags.Add("--window-attn-skip-freq", interval);
    return;
  }
  flags.Add("--window-attn-skip-freq",
            ListOf(runs, [](const LayerRun& run) { return run.kind.sliding_window > 0; }));
}

void AddMegatronExpertLayers(const ModelSpec& model, FlagList& flags) {
  const std::vector<LayerRun> runs = RunsOf(model);
  const auto has_experts = [](const LayerRun& run) {
    return run.kind.feed_forward == FeedForwardKind::kExperts;
  };
  if (!std::ranges::all_of(runs, has_experts)) {
    flags.Add("--moe-layer-freq", ListOf(runs, has_experts));
  }
}

}  // namespace meshwright
