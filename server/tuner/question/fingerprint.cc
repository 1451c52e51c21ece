#include "server/tuner/question/fingerprint.h"

#include <fmt/format.h>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "search_space/base/units.h"
#include "search_space/digest/fnv.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/model.h"
#include "search_space/spec/workload.h"
#include "server/tuner/question/moe_training.h"

namespace meshwright {
namespace {

// Writes the text that is hashed. Every field is named in a structured binding, so a new field does
// not compile until it is added here.
class Text {
 public:
  template <typename... Fields>
  void Add(const Fields&... fields) {
    (AddOne(fields), ...);
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  void AddOne(std::string_view field) { text_ += fmt::format("{}:{};", field.size(), field); }
  void AddOne(const std::string& field) { AddOne(std::string_view(field)); }
  template <typename Field>
  requires std::is_arithmetic_v<Field>
  void AddOne(Field field) { text_ += fmt::format("{};", field); }
  template <typename Field>
  requires std::is_enum_v<Field>
  void AddOne(Field field) { AddOne(Word(field)); }
  void AddOne(Bytes field) { AddOne(field.count); }
  void AddOne(Seconds field) { AddOne(field.count()); }
  void AddOne(BytesPerSecond field) { AddOne(field.rate); }
  void AddOne(FlopsPerSecond field) { AddOne(field.rate); }
  template <typename Field>
  void AddOne(const std::optional<Field>& field) {
    AddOne(field.has_value());
    if (field.has_value()) AddOne(*field);
  }

  std::string text_;
};

void AddLayers(const std::vector<LayerRun>& runs, Text& text) {
  for (const auto& [count, kind] : runs) {
    const auto& [mixer, feed_forward, window, is_chunked, heads, kv_heads, head_dim, v_head_dim,
                 values_are_keys, ffn] = kind;
    text.Add(count, mixer, feed_forward, window, is_chunked, heads, kv_heads, head_dim, v_head_dim,
             values_are_keys, ffn);
  }
}

// Adds what changes a step in the norms, the feed-forward and attention of some models.
void AddForms(const ModelSpec& model, Text& text) {
  const auto add = [&](bool has, std::string_view name, const auto&... values) {
    if (has) text.Add(name, values...);
  };
  add(model.biases.has_value(), "biases", model.biases);
  add(!model.pre_norms, "no_pre_norms");
  add(model.qk_norm_spans_heads, "qk_norm_spans_heads");
  add(model.attention_sinks, "attention_sinks");
  add(model.parallel_feed_forward, "parallel_feed_forward");
  add(model.activation_clamp.has_value(), "activation_clamp");
  add(model.attention_soft_cap.has_value(), "attention_soft_cap");
  add(model.output_soft_cap.has_value(), "output_soft_cap");
}

// Adds what only some models have. What a model does not have adds nothing, so that fingerprints
// stored before these fields existed stay valid.
void AddStructure(const ModelSpec& model, Text& text) {
  if (!model.layers.empty()) {
    text.Add(std::string_view("layers"), model.layers.size());
    AddLayers(model.layers, text);
  }
  if (model.linear_attention.has_value()) {
    const auto& [kind, key_heads, value_heads, key_dim, value_dim, convolution] =
        *model.linear_attention;
    text.Add(std::string_view("linear_attention"), kind, key_heads, value_heads, key_dim, value_dim,
             convolution);
  }
  if (model.state_space.has_value()) {
    const auto& [heads, head_dim, groups, state, convolution, dt_rank] = *model.state_space;
    text.Add(std::string_view("state_space"), heads, head_dim, groups, state, convolution, dt_rank);
  }
  if (model.qkv_bias) text.Add(std::string_view("qkv_bias"));
  if (model.qk_norm) text.Add(std::string_view("qk_norm"));
  if (model.attention_output_gate) text.Add(std::string_view("attention_output_gate"));
  if (model.post_norms) text.Add(std::string_view("post_norms"));
  if (model.position_count > 0) text.Add(std::string_view("position_count"), model.position_count);
  AddForms(model, text);
}

void AddModel(const ModelSpec& model, Text& text) {
  const auto& [name, layers, hidden, ffn, heads, kv_heads, head_dim, vocabulary, mlp, norm, tied,
               moe, mla, window, mtp, linear, space, runs, qkv_bias, qk_norm, gate, post_norms,
               positions, rotary_base, norm_epsilon, rope_scaling, biases, pre_norms,
               qk_norm_spans_heads, sinks, parallel, glu_offset, clamp, attention_cap, output_cap,
               attention_scale, embedding_scale, residual_scale, output_scale] = model;
  // AddStructure adds those from `linear` on. The rotary embedding, the epsilon of the norms, an
  // offset and factors do not change a step.
  static_cast<void>(std::tie(name, linear, space, runs, qkv_bias, qk_norm, gate, post_norms,
                             positions, rotary_base, norm_epsilon, rope_scaling, biases, pre_norms,
                             qk_norm_spans_heads, sinks, parallel, glu_offset, clamp, attention_cap,
                             output_cap, attention_scale, embedding_scale, residual_scale,
                             output_scale));
  text.Add(layers, hidden, ffn, heads, kv_heads, head_dim, vocabulary, mlp, norm, tied, window, mtp,
           moe.has_value(), mla.has_value());
  if (moe.has_value()) {
    const auto& [experts, chosen, expert_ffn, shared_ffn, dense, imbalance, groups, chosen_groups,
                 score, scaling, bias] = *moe;
    static_cast<void>(std::tie(score, scaling, bias));  // do not change the time of a step
    text.Add(experts, chosen, expert_ffn, shared_ffn, dense, imbalance);
    if (groups > 0) text.Add(groups, chosen_groups);
  }
  if (mla.has_value()) {
    const auto& [q_rank, kv_rank, nope, rope, value, index_heads, index_dim, index_tokens] = *mla;
    text.Add(q_rank, kv_rank, nope, rope, value);
    if (index_heads > 0) text.Add(index_heads, index_dim, index_tokens);
  }
  AddStructure(model, text);
}

// Adds what differs from the usual way to exchange tokens, so that fingerprints stored before these
// fields existed stay valid.
void AddMoeTraining(const Problem& problem, Text& text) {
  const auto& [dispatcher, dtype, capacity] = problem.workload.moe;
  const Overlap& overlap = problem.workload.overlap;
  const Overlap& usual = problem.profile.overlap;
  if (problem.workload.moe != UsualMoeTraining(problem.profile, problem.cluster.pools.front())) {
    text.Add(std::string_view("moe"), dispatcher, dtype, capacity);
  }
  if (overlap.expert_parallel != usual.expert_parallel) {
    text.Add(std::string_view("expert_parallel"), overlap.expert_parallel);
  }
  if (overlap.shared_expert != usual.shared_expert) {
    text.Add(std::string_view("shared_expert"), overlap.shared_expert);
  }
}

void AddWorkload(const Problem& problem, Text& text) {
  const auto& [sequence, batch, precision, attention, norm, cross_entropy, optimizer, gradient, fp8,
               grouped, dropout, overlap, framework, version, moe] = problem.workload;
  const auto& [reduce, gather, tensor, p2p, expert, shared] = overlap;
  static_cast<void>(std::tie(moe, expert, shared));
  text.Add(sequence, batch, precision, attention, norm, cross_entropy, optimizer, gradient, fp8,
           grouped, dropout, reduce, gather, tensor, p2p, framework, version);
  if (problem.model.moe.has_value()) AddMoeTraining(problem, text);
}

void AddPool(const NodePool& pool, Text& text) {
  const auto& [name, chip, nodes, devices, intra, inter, memory, power, physical, host] = pool;
  const auto& [intra_kind, intra_bandwidth, domain, topology] = intra;
  const auto& [inter_kind, nics, nic_bandwidth, latency] = inter;
  static_cast<void>(name);
  text.Add(chip.id, nodes, devices, intra_kind, intra_bandwidth, domain, topology, inter_kind, nics,
           nic_bandwidth, latency, memory, power);
  // Added only if present, so that fingerprints stored before this field existed stay valid.
  if (physical.has_value()) text.Add(*physical);
  if (host != Host()) {
    const auto& [rate, domains, host_memory] = host;
    text.Add(rate, domains, host_memory.value_or(Bytes()));
  }
}

// Names of pools do not count, but their places do.
std::size_t PlaceOf(std::string_view name, const std::vector<NodePool>& pools) {
  return static_cast<std::size_t>(std::ranges::find(pools, name, &NodePool::name) - pools.begin());
}

void AddCluster(const ClusterSpec& cluster, Text& text) {
  const auto& [name, pools, topology, inter_pool, links] = cluster;
  const auto& [kind, segment, oversubscription] = topology;
  const auto& [bandwidth, latency] = inter_pool;
  static_cast<void>(name);
  text.Add(pools.size(), kind, segment, oversubscription, bandwidth, latency);
  for (const NodePool& pool : pools) AddPool(pool, text);
  for (const PoolLink& stated : links) {
    const auto& [from, to, link, path] = stated;
    text.Add(PlaceOf(from, pools), PlaceOf(to, pools), link.bandwidth_per_node, link.latency, path);
  }
}

void AddGemm(const ChipSpec& chip, Text& text) {
  const auto& [compute, memory, fixed, intensity, fill, quantisation, norm, split_k] = chip.gemm;
  text.Add(compute, memory, fixed, intensity, fill, quantisation, norm, split_k);
  for (const GemmTile& tile : chip.gemm_tiles) text.Add(tile.rows, tile.columns);
  for (const GemmResidualTable& table : chip.gemm_residuals) {
    text.Add(table.precision, table.pass.has_value(), table.is_grouped, table.shapes.size());
    if (table.pass.has_value()) text.Add(static_cast<int>(*table.pass));
    for (const GemmResidual& shape : table.shapes) {
      const auto& [count, m, n, k, ratio] = shape;
      text.Add(count, m, n, k, ratio);
    }
  }
}

void AddLinks(const ChipSpec& chip, Text& text) {
  for (const CollectiveFit& fit : chip.collectives) {
    const auto& [kind, ranks, alpha, bandwidth, half, curve] = fit;
    text.Add(static_cast<int>(kind), ranks, alpha, bandwidth, half, curve.size());
    for (const auto& [bytes, time] : curve) text.Add(bytes, time);
  }
  const auto& [kind, bandwidth, domain, topology] = chip.scale_up;
  const auto& [devices, nics, gigabits, nic_kind, is_published] = chip.usual_node;
  text.Add(chip.collectives.size(), kind, bandwidth, domain, topology, devices, nics, gigabits,
           nic_kind, is_published);
}

template <typename Named>
bool IsEqualButForName(Named a, const Named& b) {
  a.name = b.name;
  return a == b;
}

bool IsSamePool(const NodePool& a, const NodePool& b) {
  // Most pools that differ do so here, which avoids the copy.
  return a.node_count == b.node_count && a.chip.id == b.chip.id && IsEqualButForName(a, b);
}

bool IsSameCluster(const ClusterSpec& a, const ClusterSpec& b) {
  const auto& [name, pools, topology, inter_pool, links] = a;
  static_cast<void>(name);
  const auto is_same_link = [&](const PoolLink& x, const PoolLink& y) {
    return PlaceOf(x.from, a.pools) == PlaceOf(y.from, b.pools) &&
           PlaceOf(x.to, a.pools) == PlaceOf(y.to, b.pools) && x.link == y.link && x.path == y.path;
  };
  return topology == b.topology && inter_pool == b.inter_pool &&
         std::ranges::equal(links, b.pool_links, is_same_link) &&
         std::ranges::equal(pools, b.pools, IsSamePool);
}

}  // namespace

bool IsSameJob(const Problem& a, const Problem& b) {
  if (&a == &b) return true;
  return a.workload == b.workload && IsEqualButForName(a.model, b.model) &&
         IsSameCluster(a.cluster, b.cluster);
}

std::string JobFingerprint(const Problem& problem) {
  Text text;
  AddModel(problem.model, text);
  AddWorkload(problem, text);
  AddCluster(problem.cluster, text);
  return Fnv1a128Hex(text.text());
}

std::string HardwareFingerprint(const ClusterSpec& cluster) {
  Text text;
  AddCluster(cluster, text);
  return Fnv1a128Hex(text.text());
}

std::string ChipFingerprint(const ChipSpec& chip) {
  Text text;
  text.Add(chip.id, chip.memory_capacity, chip.reported_memory_capacity, chip.memory_bandwidth,
           chip.vector_peak, chip.power_limit_watts, chip.core_count, chip.cache,
           chip.cache_bandwidth_ratio, chip.sustained_time_ratio, chip.memory_bound_efficiency,
           chip.stream_efficiency, chip.memory_bound_fixed, chip.permutation_efficiency,
           chip.host_link, chip.overlap_slowdown, chip.runtime_context, chip.peak.size());
  for (const auto& [precision, peak] : chip.peak) text.Add(precision, peak);
  if (chip.torus_axis_count.has_value()) text.Add(*chip.torus_axis_count);
  const auto& [efficiency, sequence, wave, flash2, small_head, backward, backward_sequence,
               backward_wave] = chip.attention;
  text.Add(efficiency, sequence, wave, flash2, small_head, backward, backward_sequence,
           backward_wave);
  AddGemm(chip, text);
  AddLinks(chip, text);
  return Fnv1a128Hex(text.text());
}

std::string SoftwareFingerprint(const Problem& problem) {
  Text text;
  text.Add(problem.workload.framework_name, problem.workload.framework_version);
  for (const FrameworkFactRequest& fact : problem.framework_facts) text.Add(fact.name, fact.value);
  return Fnv1a128Hex(text.text());
}

}  // namespace meshwright
