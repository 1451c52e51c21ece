#include "server/plugins/host/library_question.h"

#include <cstddef>

#include "server/plugins/protocol/columns.h"

namespace meshwright {
namespace {

namespace wire = costmodel::v1;

mw_link LinkOf(const wire::Link& link) {
  return {.size = sizeof(mw_link),
          .extension = nullptr,
          .kind = LibraryString(link.kind()),
          .bandwidth_bytes_per_second = link.bandwidth_bytes_per_second(),
          .latency_seconds = link.latency_seconds(),
          .device_count = link.device_count()};
}

// A missing column takes its default.
template <typename Value>
const Value* ColumnData(const google::protobuf::RepeatedField<Value>& column) {
  return column.empty() ? nullptr : column.data();
}

}  // namespace

mw_string LibraryString(const std::string& text) {
  return {.data = text.empty() ? nullptr : text.data(), .length = text.size()};
}

std::string FromLibrary(const mw_string& text) {
  return text.data == nullptr ? std::string() : std::string(text.data, text.length);
}

LibraryQuestion::LibraryQuestion(const wire::OpenContextRequest& request) {
  SetModel(request.model());
  SetWorkload(request.workload());
  const wire::Cluster& cluster = request.cluster();
  peaks_.reserve(static_cast<std::size_t>(cluster.pools_size()));  // pools point into it
  for (const wire::Pool& pool : cluster.pools()) AddPool(pool);
  question_.size = sizeof(mw_question);
  question_.pools = pools_.data();
  question_.pool_count = pools_.size();
  question_.topology = LibraryString(cluster.topology());
  question_.nodes_per_segment = cluster.nodes_per_segment();
  question_.oversubscription_ratio = cluster.oversubscription_ratio();
  question_.calibration = request.calibration().empty() ? nullptr : request.calibration().data();
  question_.calibration_length = request.calibration().size();
}

void LibraryQuestion::SetModel(const wire::Model& model) {
  mw_model& out = question_.model;
  out.size = sizeof(mw_model);
  out.name = LibraryString(model.name());
  out.layer_count = model.layer_count();
  out.hidden_size = model.hidden_size();
  out.ffn_hidden_size = model.ffn_hidden_size();
  out.attention_head_count = model.attention_head_count();
  out.kv_head_count = model.kv_head_count();
  out.head_dim = model.head_dim();
  out.vocab_size = model.vocab_size();
  out.sliding_window = model.sliding_window();
  out.mtp_layer_count = model.mtp_layer_count();
  out.has_tied_embeddings = model.has_tied_embeddings();
  out.mlp = LibraryString(model.mlp());
  out.norm = LibraryString(model.norm());
  out.parameter_count = model.parameter_count();
  out.active_parameter_count = model.active_parameter_count();
  if (model.has_moe()) {
    const wire::Moe& moe = model.moe();
    moe_ = {.size = sizeof(mw_moe),
            .extension = nullptr,
            .expert_count = moe.expert_count(),
            .experts_per_token = moe.experts_per_token(),
            .expert_ffn_hidden_size = moe.expert_ffn_hidden_size(),
            .shared_expert_ffn_hidden_size = moe.shared_expert_ffn_hidden_size(),
            .first_dense_layer_count = moe.first_dense_layer_count(),
            .imbalance_ratio = moe.imbalance_ratio()};
    out.moe = &moe_;
  }
  if (model.has_mla()) {
    const wire::Mla& mla = model.mla();
    mla_ = {.size = sizeof(mw_mla),
            .extension = nullptr,
            .q_lora_rank = mla.q_lora_rank(),
            .kv_lora_rank = mla.kv_lora_rank(),
            .qk_nope_head_dim = mla.qk_nope_head_dim(),
            .qk_rope_head_dim = mla.qk_rope_head_dim(),
            .v_head_dim = mla.v_head_dim()};
    out.mla = &mla_;
  }
}

void LibraryQuestion::SetWorkload(const wire::Workload& workload) {
  for (const std::string& name : workload.recompute_module_names()) {
    modules_.push_back(LibraryString(name));
  }
  question_.workload = {.size = sizeof(mw_workload),
                        .extension = nullptr,
                        .sequence_length = workload.sequence_length(),
                        .global_batch_size = workload.global_batch_size(),
                        .precision = LibraryString(workload.precision()),
                        .attention_kernel = LibraryString(workload.attention_kernel()),
                        .norm_kernel = LibraryString(workload.norm_kernel()),
                        .cross_entropy_kernel = LibraryString(workload.cross_entropy_kernel()),
                        .optimizer = LibraryString(workload.optimizer()),
                        .gradient_dtype = LibraryString(workload.gradient_dtype()),
                        .fp8_recipe = LibraryString(workload.fp8_recipe()),
                        .dropout_ratio = workload.dropout_ratio(),
                        .has_grouped_gemm = workload.has_grouped_gemm(),
                        .overlaps_gradient_reduce = workload.overlaps_gradient_reduce(),
                        .overlaps_parameter_gather = workload.overlaps_parameter_gather(),
                        .overlaps_tensor_parallel = workload.overlaps_tensor_parallel(),
                        .overlaps_pipeline_p2p = workload.overlaps_pipeline_p2p(),
                        .framework_name = LibraryString(workload.framework_name()),
                        .framework_version = LibraryString(workload.framework_version()),
                        .recompute_module_names = modules_.data(),
                        .recompute_module_count = modules_.size()};
}

void LibraryQuestion::AddPool(const wire::Pool& pool) {
  const wire::Chip& chip = pool.chip();
  std::vector<mw_peak>& peaks = peaks_.emplace_back();
  for (const wire::Peak& peak : chip.peaks()) {
    peaks.push_back({.precision = LibraryString(peak.precision()),
                     .flops_per_second = peak.flops_per_second()});
  }
  pools_.push_back({.size = sizeof(mw_pool),
                    .extension = nullptr,
                    .name = LibraryString(pool.name()),
                    .chip_id = LibraryString(chip.id()),
                    .chip_vendor = LibraryString(chip.vendor()),
                    .chip_name = LibraryString(chip.name()),
                    .node_count = pool.node_count(),
                    .devices_per_node = pool.devices_per_node(),
                    .core_count = chip.core_count(),
                    .memory_capacity_bytes = pool.memory_capacity_bytes(),
                    .cache_bytes = chip.cache_bytes(),
                    .memory_bandwidth_bytes_per_second = chip.memory_bandwidth_bytes_per_second(),
                    .power_limit_watts = pool.power_limit_watts(),
                    .peaks = peaks.data(),
                    .peak_count = peaks.size(),
                    .intra_node = LinkOf(pool.intra_node()),
                    .inter_node = LinkOf(pool.inter_node())});
}

mw_candidates LibraryCandidates(const wire::Candidates& c) {
  mw_candidates out = {};
  out.size = sizeof(mw_candidates);
  out.count = static_cast<std::size_t>(c.count());
  const auto fill = [&](const auto& column) {
    out.*column.in_library = ColumnData((c.*column.get)());
  };
  ForEachColumn(fill);
  for (const CandidateLists& lists : kListColumns) {
    fill(lists.lengths);
    fill(lists.values);
  }
  return out;
}

}  // namespace meshwright
