#include "server/tuner/chip_calibration/measurements.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "search_space/base/clean_text.h"
#include "search_space/base/json_text.h"
#include "search_space/base/shown_value.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"
#include "vendor_models/object_reader.h"

namespace meshwright {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kFormat = "meshwright.microbench";
constexpr double kVersion = 1;

constexpr NumberLimits kTime = {.low = 1e-9, .high = 1e5};
constexpr NumberLimits kMessage = {.low = 1, .high = 1e14};
constexpr NumberLimits kSize = {.low = 1, .high = 1e9, .is_whole = true};
constexpr NumberLimits kRankCount = {.low = 1, .high = 1e6, .is_whole = true};

constexpr std::string_view kStatuses[] = {"measured", "skipped", "failed"};
constexpr std::string_view kStreams[] = {"copy", "scale", "triad"};
constexpr std::string_view kElementwiseKernels[] = {"eager", "fused"};

struct KindWord {
  CollectiveKind kind;
  std::string_view word;
};
constexpr KindWord kKinds[] = {{CollectiveKind::kAllReduce, "all_reduce"},
                               {CollectiveKind::kAllGather, "all_gather"},
                               {CollectiveKind::kReduceScatter, "reduce_scatter"},
                               {CollectiveKind::kAllToAll, "all_to_all"}};

struct PassName {
  GemmPass pass;
  std::string_view word;
};
constexpr PassName kPasses[] = {{GemmPass::kForward, "forward"},
                                {GemmPass::kInputGradient, "input_gradient"},
                                {GemmPass::kWeightGradient, "weight_gradient"}};

template <typename Row>
const Row* FindWord(std::span<const Row> rows, std::string_view word) {
  const auto found =
      std::find_if(rows.begin(), rows.end(), [word](const Row& row) { return row.word == word; });
  return found == rows.end() ? nullptr : &*found;
}

class MeasurementsReader {
 public:
  void Read(const Json& file) {
    ObjectReader top(file, "", violations_);
    const std::string format = top.Text("format");
    if (!format.empty() && format != kFormat) {
      top.Reject("format", fmt::format("{}; must be {}", format, kFormat));
    }
    top.Number("version", {.low = kVersion, .high = kVersion});
    if (const Json* machine = Object(top, "machine")) ReadMachine(*machine);
    const Json* items = Object(top, "items");
    if (items == nullptr) return;
    for (const auto& [name, item] : items->items()) ReadItem(name, item);
  }

  absl::StatusOr<ChipMeasurements> Conclude() && {
    if (!violations_.empty()) return InvalidFields(violations_);
    return std::move(result_);
  }

 private:
  using RowReader = void (MeasurementsReader::*)(ObjectReader& row, const Json& object);

  static const Json* Object(ObjectReader& reader, std::string_view key) {
    const Json* value = reader.Find(key);
    if (value == nullptr || value->is_object()) return value;
    reader.Reject(key, ShownValue(*value) + "; must be an object");
    return nullptr;
  }

  void ReadMachine(const Json& object) {
    ObjectReader machine(object, "machine.", violations_);
    result_.device = machine.Text("device");
    result_.device_name = machine.Text("device_name");
    result_.backend = machine.Text("backend");
    result_.torch = machine.Text("torch");
    if (machine.Has("is_quick")) result_.is_quick = machine.Flag("is_quick").value_or(false);
    result_.ranks = static_cast<int>(machine.Number("device_count", kRankCount).value_or(1));
  }

  void ReadItem(const std::string& name, const Json& object) {
    static constexpr std::pair<std::string_view, RowReader> kReaders[] = {
        {"device", &MeasurementsReader::ReadDevice},
        {"memory", &MeasurementsReader::ReadStream},
        {"gemm", &MeasurementsReader::ReadGemm},
        {"sustained_gemm", &MeasurementsReader::ReadSustained},
        {"attention", &MeasurementsReader::ReadAttention},
        {"elementwise", &MeasurementsReader::ReadElementwise},
        {"collectives", &MeasurementsReader::ReadCollective},
        {"host_link", &MeasurementsReader::ReadHostCopy},
        {"overlap", &MeasurementsReader::ReadOverlap},
        {"step", &MeasurementsReader::ReadStep},
    };
    const std::string path = fmt::format("items.{}", name);
    if (!object.is_object()) {
      violations_.push_back({.field = path, .description = "must be an object"});
      return;
    }
    ObjectReader item(object, path + ".", violations_);
    ItemState state = {.name = name, .status = item.Text("status")};
    if (object.contains("reason") && object["reason"].is_string()) {
      state.reason = object["reason"].get<std::string>();
    }
    if (!state.status.empty() && std::ranges::count(kStatuses, state.status) == 0) {
      item.Reject("status",
                  fmt::format("{}; must be one of {}", state.status, fmt::join(kStatuses, ", ")));
    }
    result_.items.push_back(std::move(state));
    const auto* const reader = std::find_if(std::begin(kReaders), std::end(kReaders),
                                            [&name](const auto& r) { return r.first == name; });
    if (reader == std::end(kReaders)) return;  // no figure is fitted to it
    const Json* rows = item.Find("rows");
    if (rows == nullptr) return;
    if (!rows->is_array()) {
      item.Reject("rows", ShownValue(*rows) + "; must be a list");
      return;
    }
    for (std::size_t i = 0; i < rows->size(); ++i) {
      ReadRow(fmt::format("{}.rows[{}]", path, i), (*rows)[i], reader->second);
    }
  }

  // Reads a row. Nothing is kept of one that has a mistake.
  void ReadRow(const std::string& path, const Json& object, RowReader read) {
    if (!object.is_object()) {
      violations_.push_back({.field = path, .description = "must be an object"});
      return;
    }
    ObjectReader row(object, path + ".", violations_);
    (this->*read)(row, object);
  }

  static Seconds Time(ObjectReader& row, std::string_view key = "time_seconds") {
    return Seconds(row.Number(key, kTime).value_or(1));
  }
  static Bytes Size(ObjectReader& row, std::string_view key = "bytes") {
    return RoundedBytes(row.Number(key, kMessage).value_or(1));
  }
  static double Count(ObjectReader& row, std::string_view key) {
    return row.Number(key, kSize).value_or(1);
  }

  void ReadDevice(ObjectReader& row, const Json& object) {
    result_.has_fused_attention = row.Flag("has_fused_attention");
    if (object.contains("runtime_context_bytes")) {
      result_.runtime_context = Size(row, "runtime_context_bytes");
    }
  }

  void ReadStream(ObjectReader& row, const Json& /*object*/) {
    const std::string operation = row.Text("operation");
    if (!operation.empty() && std::ranges::count(kStreams, operation) == 0) {
      row.Reject("operation",
                 fmt::format("{}; must be one of {}", operation, fmt::join(kStreams, ", ")));
    }
    result_.streams.push_back({.traffic = {.bytes = Size(row), .time = Time(row)},
                               .working_set = Size(row, "working_set_bytes")});
  }

  void ReadHostCopy(ObjectReader& row, const Json& /*object*/) {
    result_.host_copies.push_back({.is_pinned = row.Flag("is_pinned").value_or(false),
                                   .traffic = {.bytes = Size(row), .time = Time(row)}});
  }

  void ReadOverlap(ObjectReader& row, const Json& /*object*/) {
    result_.overlaps.push_back({.bytes = Size(row),
                                .gemm = Time(row, "gemm_alone_seconds"),
                                .collective = Time(row, "collective_alone_seconds"),
                                .together = Time(row, "together_seconds")});
  }

  void ReadGemm(ObjectReader& row, const Json& /*object*/) {
    const std::optional<Precision> precision = row.Choice<Precision>("precision");
    const std::string word = row.Text("pass");
    const PassName* pass = FindWord<PassName>(kPasses, word);
    if (pass == nullptr && !word.empty()) {
      row.Reject("pass", word + "; must be one of forward, input_gradient, weight_gradient");
    }
    MeasuredGemm gemm = {.precision = precision.value_or(Precision::kBf16),
                         .pass = pass == nullptr ? GemmPass::kForward : pass->pass,
                         .shape = {.m = Count(row, "m"),
                                   .n = Count(row, "n"),
                                   .k = Count(row, "k"),
                                   .count = Count(row, "count")},
                         .time = Time(row)};
    if (!row.Flag("accumulates_fp32").value_or(false)) result_.gemms.push_back(gemm);
  }

  void ReadSustained(ObjectReader& row, const Json& /*object*/) {
    const std::optional<Precision> precision = row.Choice<Precision>("precision");
    result_.sustained.push_back(
        {.precision = precision.value_or(Precision::kBf16),
         .shape = {.m = Count(row, "m"), .n = Count(row, "n"), .k = Count(row, "k")},
         .burst = Time(row, "burst_time_seconds"),
         .sustained = Time(row)});
  }

  void ReadAttention(ObjectReader& row, const Json& /*object*/) {
    const std::string pass = row.Text("pass");
    if (!pass.empty() && pass != "forward" && pass != "backward") {
      row.Reject("pass", pass + "; must be one of forward, backward");
    }
    const auto precision = row.Choice<Precision>("precision");
    const auto kernel = row.Choice<AttentionKernel>("kernel");
    const double tokens = Count(row, "sequence_length");
    const MeasuredAttention attention = {.precision = precision.value_or(Precision::kBf16),
                                         .kernel = kernel.value_or(AttentionKernel::kVendor),
                                         .shape = {.batch = Count(row, "batch"),
                                                   .heads = Count(row, "head_count"),
                                                   .head_dim = Count(row, "head_dim"),
                                                   .query_tokens = tokens,
                                                   .key_tokens = tokens},
                                         .is_backward = pass == "backward",
                                         .time = Time(row)};
    if (Count(row, "kv_head_count") == attention.shape.heads) {
      result_.attention.push_back(attention);
    }
  }

  void ReadElementwise(ObjectReader& row, const Json& object) {
    // Files from before compiled kernels were measured have no kernel.
    const std::string kernel = object.contains("kernel") ? row.Text("kernel") : "eager";
    if (!kernel.empty() && std::ranges::count(kElementwiseKernels, kernel) == 0) {
      row.Reject("kernel", fmt::format("{}; must be one of {}", kernel,
                                       fmt::join(kElementwiseKernels, ", ")));
    }
    result_.elementwise.push_back({.operation = row.Text("operation"),
                                   .is_fused = kernel == "fused",
                                   .traffic = {.bytes = Size(row), .time = Time(row)}});
  }

  void ReadCollective(ObjectReader& row, const Json& /*object*/) {
    const std::string word = row.Text("kind");
    const int ranks = static_cast<int>(row.Number("rank_count", kRankCount).value_or(2));
    const Bytes bytes = Size(row);
    const Seconds time = Time(row);
    if (word == "point_to_point") {
      result_.messages.push_back({.bytes = bytes, .time = time});
      return;
    }
    const KindWord* kind = FindWord<KindWord>(kKinds, word);
    if (kind == nullptr) {
      if (!word.empty()) {
        row.Reject("kind", word +
                               "; must be one of all_reduce, all_gather, reduce_scatter, "
                               "all_to_all, point_to_point");
      }
      return;
    }
    result_.collectives.push_back(
        {.kind = kind->kind, .ranks = ranks, .bytes = bytes, .time = time});
  }

  void ReadStep(ObjectReader& row, const Json& object) {
    MeasuredStep step = {
        .ranks = static_cast<int>(row.Number("rank_count", kRankCount).value_or(1)),
        .time = Time(row, "step_time_seconds")};
    if (object.contains("peak_memory_bytes")) step.peak_memory = Size(row, "peak_memory_bytes");
    const Json* asked = Object(row, "case");
    if (asked != nullptr) {
      step.case_json = asked->dump(-1, ' ', true, Json::error_handler_t::replace);
    }
    result_.steps.push_back(std::move(step));
  }

  ChipMeasurements result_;
  std::vector<FieldViolation> violations_;
};

// Returns the error's text without the library's prefix "[json.exception.parse_error.101] ".
std::string ParseErrorText(const Json::exception& error) {
  const std::string_view text = error.what();
  const std::size_t end = text.find("] ");
  return std::string(end == std::string_view::npos ? text : text.substr(end + 2));
}

}  // namespace

absl::StatusOr<ChipMeasurements> ParseMeasurements(std::string_view text) {
  Json file;
  try {
    file = Json::parse(text);
  } catch (const Json::exception& error) {
    return InvalidFields(
        {{.field = "measurements", .description = "no JSON: " + ParseErrorText(error)}});
  }
  if (!file.is_object()) {
    return InvalidFields(
        {{.field = "measurements", .description = ShownValue(file) + "; must be a JSON object"}});
  }
  const auto mistakes = JsonTextMistakes(file, "measurements", TextLayout::kOneLine);
  if (!mistakes.empty()) return InvalidFields(mistakes);
  MeasurementsReader reader;
  reader.Read(file);
  return std::move(reader).Conclude();
}

}  // namespace meshwright
