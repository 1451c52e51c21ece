#include "server/convert/catalog_wire.h"

#include <string>

#include "search_space/base/status.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"
#include "server/convert/status_wire.h"
#include "server/engine/queue/quota.h"
#include "server/tuner/answers/run_study.h"
#include "server/tuner/chip_calibration/coverage.h"
#include "server/tuner/chip_calibration/group_bandwidth.h"
#include "server/tuner/question/knowledge.h"
#include "vendor_models/chip_file.h"

namespace meshwright {
namespace {

constexpr char kApiVersion[] = "meshwright.v1";

}  // namespace

v1::Chip ToWire(const ChipEntry& entry, bool with_figures) {
  const ChipSpec& spec = entry.spec;
  v1::Chip chip;
  chip.set_id(spec.id);
  chip.set_vendor(spec.vendor);
  chip.set_name(spec.name);
  for (const std::string& alias : spec.aliases) chip.add_aliases(alias);
  chip.set_confidence(std::string(Word(spec.confidence)));
  chip.set_memory_capacity_bytes(spec.memory_capacity.count);
  chip.set_memory_bandwidth_bytes_per_second(spec.memory_bandwidth.rate);
  for (const auto& [precision, peak] : spec.peak) {
    (*chip.mutable_peak_flops_per_second())[std::string(Word(precision))] = peak.rate;
  }
  if (!with_figures) return chip;
  for (const ChipFigure& from : entry.figures) {
    v1::Figure& figure = *chip.add_figures();
    figure.set_name(from.name);
    figure.set_value(from.value);
    figure.set_source(from.source);
    figure.set_provenance(std::string(Word(from.provenance)));
    figure.set_confidence(std::string(Word(from.confidence)));
  }
  chip.set_notes(entry.notes);
  for (const ReportedName& from : entry.reported_names) {
    v1::ReportedName& name = *chip.add_reported_names();
    name.set_name(from.name);
    name.set_source(from.source);
  }
  for (const OperatorCoverage& from : CoverageOf(entry)) {
    v1::OperatorCoverage& covered = *chip.add_coverage();
    covered.set_name(from.name);
    covered.set_detail(from.detail);
    covered.set_size_unit(from.size_unit);
    covered.mutable_sizes()->Assign(from.sizes.begin(), from.sizes.end());
    covered.set_provenance(std::string(Word(from.provenance)));
    covered.set_confidence(std::string(Word(from.confidence)));
    covered.set_source(from.source);
  }
  for (const GroupBandwidth& from : GroupBandwidths(spec)) {
    v1::GroupBandwidth& group = *chip.add_group_bandwidths();
    group.set_rank_count(from.ranks);
    group.set_all_reduce_bytes_per_second(from.all_reduce.rate);
    group.set_all_to_all_bytes_per_second(from.all_to_all.rate);
    group.set_provenance(std::string(Word(from.provenance)));
  }
  return chip;
}

v1::ListChipsResponse ListChips(const Catalogue& catalogue) {
  v1::ListChipsResponse response;
  for (const ChipEntry& entry : catalogue.chips()) {
    *response.add_chips() = ToWire(entry, /*with_figures=*/false);
  }
  for (const UnmodelledChip& from : catalogue.unmodelled()) {
    v1::UnmodelledChip& chip = *response.add_unmodelled_chips();
    chip.set_id(from.id);
    chip.set_missing(from.missing);
  }
  return response;
}

absl::StatusOr<v1::GetChipResponse> GetChip(const Catalogue& catalogue, const std::string& id) {
  const auto entry = catalogue.Find(id);
  if (!entry.ok()) {
    return absl::IsNotFound(entry.status()) ? WithResource(entry.status(), "chip", id)
                                            : entry.status();
  }
  v1::GetChipResponse response;
  *response.mutable_chip() = ToWire(**entry, /*with_figures=*/true);
  return response;
}

v1::GetServerInfoResponse ServerInfo(const Knowledge& knowledge, int store_schema_version,
                                     const StoreSize& store) {
  v1::GetServerInfoResponse response;
  response.set_version(MESHWRIGHT_VERSION);
  response.set_api_version(kApiVersion);
  response.set_store_schema_version(store_schema_version);
  for (const std::string& rule : PruneRuleNames()) response.add_prune_rules(rule);
  for (const std::string& strategy : StrategyNames()) response.add_strategies(strategy);
  for (const std::string& name : knowledge.frameworks.Names()) response.add_frameworks(name);
  response.set_chip_count(static_cast<int>(knowledge.chips.chips().size()));
  if (store.bytes.has_value()) response.set_store_bytes(*store.bytes);
  if (store.free_bytes.has_value()) response.set_store_free_bytes(*store.free_bytes);
  return response;
}

void AddUse(const HistoryQueries& history, std::int64_t time_ms, v1::ListCallersResponse& callers) {
  for (v1::Caller& caller : *callers.mutable_callers()) {
    const auto open_count = history.CountOpenStudies(caller.name());
    if (open_count.ok()) caller.set_open_study_count(*open_count);
    const auto use = history.UseOf(caller.name(), time_ms - kQuotaPeriodMs);
    if (!use.ok()) continue;
    caller.set_device_seconds(use->used.count());
    caller.set_promised_device_seconds(use->promised.count());
  }
}

}  // namespace meshwright
