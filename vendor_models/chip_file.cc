#include "vendor_models/chip_file.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "search_space/status.h"
#include "vendor_models/figure_table.h"

namespace meshwright {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kTopKeys[] = {"aliases", "collectives", "confidence", "figures",
                                         "id",      "name",        "notes",      "vendor"};
constexpr std::string_view kFigureKeys[] = {"confidence", "provenance", "source", "value"};
constexpr std::string_view kCollectiveKeys[] = {"alpha_seconds", "bandwidth_bytes_per_second",
                                                "confidence",    "half_bytes",
                                                "kind",          "provenance",
                                                "rank_count",    "source"};

struct CollectiveWord {
  CollectiveKind kind;
  std::string_view word;
};
constexpr CollectiveWord kCollectiveWords[] = {
    {CollectiveKind::kAllReduce, "all_reduce"},
    {CollectiveKind::kAllGather, "all_gather"},
    {CollectiveKind::kReduceScatter, "reduce_scatter"},
    {CollectiveKind::kAllToAll, "all_to_all"},
};

struct Limits {
  double low;
  double high;
  bool is_whole = false;
};

// A value as it goes into a message: on one line, and not the whole file.
std::string Shown(const Json& value) {
  constexpr std::size_t kLongest = 60;
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

std::string NumberText(double value) {
  return value == std::floor(value) && std::abs(value) < 1e18 ? fmt::format("{:.0f}", value)
                                                              : fmt::format("{}", value);
}

// Reads one object of the file and notes what is wrong with it; a wrong key reads as nothing, so
// that the next wrong key is found too.
class ObjectReader {
 public:
  ObjectReader(const Json& object, std::string path, std::vector<FieldViolation>& violations)
      : object_(object), path_(std::move(path)), violations_(violations) {}

  void AllowOnly(std::span<const std::string_view> keys) {
    for (const auto& item : object_.items()) {
      if (std::find(keys.begin(), keys.end(), item.key()) != keys.end()) continue;
      Reject(item.key(), fmt::format("unknown key; must be one of {}", fmt::join(keys, ", ")));
    }
  }

  const Json* Find(std::string_view key) {
    const auto found = object_.find(key);
    if (found != object_.end()) return &*found;
    Reject(key, "missing");
    return nullptr;
  }

  // A text that is not empty.
  std::string Text(std::string_view key) {
    const Json* value = Find(key);
    if (value == nullptr) return "";
    if (value->is_string() && !value->get_ref<const std::string&>().empty()) {
      return value->get<std::string>();
    }
    Reject(key, fmt::format("{}; must be a text that is not empty", Shown(*value)));
    return "";
  }

  std::optional<double> Number(std::string_view key, Limits limits) {
    const Json* value = Find(key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_number()) {
      Reject(key, fmt::format("{}; must be a number", Shown(*value)));
      return std::nullopt;
    }
    const double number = value->get<double>();
    if (number < limits.low || number > limits.high) {
      Reject(key,
             fmt::format("{}; must be from {:g} to {:g}", Shown(*value), limits.low, limits.high));
      return std::nullopt;
    }
    if (limits.is_whole && number != std::floor(number)) {
      Reject(key, fmt::format("{}; must be a whole number", Shown(*value)));
      return std::nullopt;
    }
    return number;
  }

  template <typename Enum>
  std::optional<Enum> Choice(std::string_view key) {
    const Json* value = Find(key);
    if (value == nullptr) return std::nullopt;
    if (value->is_string()) {
      const auto parsed = ParseChoice<Enum>(value->get_ref<const std::string&>());
      if (parsed.has_value()) return parsed;
    }
    Reject(key, fmt::format("{}; must be one of {}", Shown(*value), AllowedWords<Enum>()));
    return std::nullopt;
  }

  void Reject(std::string_view key, std::string description) {
    violations_.push_back(
        {.field = path_ + std::string(key), .description = std::move(description)});
  }

 private:
  const Json& object_;
  std::string path_;
  std::vector<FieldViolation>& violations_;
};

class ChipFileReader {
 public:
  explicit ChipFileReader(std::string_view name) : path_(fmt::format("{}.json: ", name)) {
    weakest_.fill(Provenance::kMeasured);
  }

  void Read(const Json& file, std::string_view name) {
    ObjectReader top(file, path_, violations_);
    top.AllowOnly(kTopKeys);
    ChipSpec& spec = entry_.spec;
    spec.id = top.Text("id");
    if (!spec.id.empty() && spec.id != name) {
      top.Reject("id", fmt::format("{}; must be the name of the file", spec.id));
    }
    spec.vendor = top.Text("vendor");
    spec.name = top.Text("name");
    spec.confidence = top.Choice<Confidence>("confidence").value_or(Confidence::kLow);
    ReadAliases(top);
    if (file.contains("notes") && file["notes"].is_string()) {
      entry_.notes = file["notes"].get<std::string>();
    } else {
      top.Reject("notes", "missing; must be a text, which may be empty");
    }
    ReadFigures(top);
    ReadCollectives(top);
    ConcludeProvenance();
  }

  absl::StatusOr<ChipEntry> Conclude() && {
    if (!violations_.empty()) return InvalidFields(violations_);
    return std::move(entry_);
  }

 private:
  void ReadAliases(ObjectReader& top) {
    const Json* aliases = top.Find("aliases");
    if (aliases == nullptr) return;
    if (!aliases->is_array()) {
      top.Reject("aliases", fmt::format("{}; must be a list of texts", Shown(*aliases)));
      return;
    }
    for (const Json& alias : *aliases) {
      if (alias.is_string() && !alias.get_ref<const std::string&>().empty()) {
        entry_.spec.aliases.push_back(alias.get<std::string>());
      } else {
        top.Reject("aliases", fmt::format("{}; must be a list of texts", Shown(alias)));
      }
    }
  }

  void ReadFigures(ObjectReader& top) {
    const Json* figures = top.Find("figures");
    if (figures == nullptr) return;
    if (!figures->is_object()) {
      top.Reject("figures", fmt::format("{}; must be an object", Shown(*figures)));
      return;
    }
    ObjectReader reader(*figures, path_ + "figures.", violations_);
    std::set<std::string_view> given;
    for (const NumberFigure& row : NumberFigures()) {
      const auto found = figures->find(row.key);
      if (found != figures->end()) {
        given.insert(row.key);
        ReadNumber(row, *found, reader);
      } else if (row.need == FigureNeed::kRequired) {
        reader.Reject(row.key, "missing");
      }
    }
    for (const WordFigure& row : WordFigures()) {
      const auto found = figures->find(row.key);
      if (found == figures->end()) continue;
      given.insert(row.key);
      ReadWord(row, *found, reader);
    }
    RejectUnknownFigures(*figures, given, reader);
    if (!given.contains("peak_bf16_flops_per_second") &&
        !given.contains("peak_fp16_flops_per_second")) {
      reader.Reject("peak_bf16_flops_per_second", "missing, and so is peak_fp16_flops_per_second");
    }
    DeriveDefaults(given, entry_.spec);
    entry_.spec.usual_node.is_published = NodeIsPublished();
    ListDefaults(given);
  }

  void RejectUnknownFigures(const Json& figures, const std::set<std::string_view>& given,
                            ObjectReader& reader) {
    if (figures.size() == given.size()) return;
    std::string known;
    for (const NumberFigure& row : NumberFigures()) known += fmt::format("{}, ", row.key);
    for (const WordFigure& row : WordFigures()) known += fmt::format("{}, ", row.key);
    known.resize(known.size() - 2);
    for (const auto& item : figures.items()) {
      if (given.contains(item.key())) continue;
      reader.Reject(item.key(), fmt::format("unknown key; must be one of {}", known));
    }
  }

  void ReadNumber(const NumberFigure& row, const Json& figure, ObjectReader& figures) {
    std::optional<ObjectReader> reader = Figure(row.key, figure, figures);
    if (!reader.has_value()) return;
    const auto value =
        reader->Number("value", {.low = row.low, .high = row.high, .is_whole = row.is_whole});
    if (value.has_value()) row.set(entry_.spec, *value);
    const Provenance provenance =
        KeepFigure(row.key, value.has_value() ? NumberText(*value) : "", *reader);
    if (row.group == FigureGroup::kPeak) {
      // One peak stands in for the other where only one is published: the better source counts.
      peak_ = peak_.has_value() ? std::min(*peak_, provenance) : provenance;
    } else {
      Weaken(row.group, provenance);
    }
  }

  void ReadWord(const WordFigure& row, const Json& figure, ObjectReader& figures) {
    std::optional<ObjectReader> reader = Figure(row.key, figure, figures);
    if (!reader.has_value()) return;
    const std::string word = reader->Text("value");
    if (!word.empty() && !row.set(entry_.spec, word)) {
      reader->Reject("value", fmt::format("{}; must be one of {}", word, row.allowed()));
    }
    KeepFigure(row.key, word, *reader);
  }

  std::optional<ObjectReader> Figure(std::string_view key, const Json& figure,
                                     ObjectReader& figures) {
    if (!figure.is_object()) {
      figures.Reject(key, fmt::format("{}; must be an object of {}", Shown(figure),
                                      fmt::join(kFigureKeys, ", ")));
      return std::nullopt;
    }
    ObjectReader reader(figure, fmt::format("{}figures.{}.", path_, key), violations_);
    reader.AllowOnly(kFigureKeys);
    return reader;
  }

  // Reads where the figure comes from and lists it.
  Provenance KeepFigure(std::string_view key, std::string value, ObjectReader& reader) {
    ChipFigure figure = {.name = std::string(key), .value = std::move(value)};
    figure.source = reader.Text("source");
    figure.provenance = reader.Choice<Provenance>("provenance").value_or(Provenance::kAssumed);
    figure.confidence = reader.Choice<Confidence>("confidence").value_or(Confidence::kLow);
    entry_.figures.push_back(std::move(figure));
    return entry_.figures.back().provenance;
  }

  void Weaken(FigureGroup group, Provenance provenance) {
    Provenance& weakest = weakest_[static_cast<std::size_t>(group)];
    weakest = std::max(weakest, provenance);
  }

  void ListDefaults(const std::set<std::string_view>& given) {
    const auto list = [this](std::string_view key, std::string value) {
      entry_.figures.push_back({.name = std::string(key),
                                .value = std::move(value),
                                .source = "class default",
                                .provenance = Provenance::kAssumed,
                                .confidence = Confidence::kLow});
    };
    for (const NumberFigure& row : NumberFigures()) {
      if (given.contains(row.key) || row.need != FigureNeed::kDefaulted) continue;
      const std::optional<double> value = row.get(entry_.spec);
      if (value.has_value()) list(row.key, NumberText(*value));
      Weaken(row.group, Provenance::kAssumed);
    }
    for (const WordFigure& row : WordFigures()) {
      if (!given.contains(row.key)) list(row.key, std::string(row.get(entry_.spec)));
    }
  }

  [[nodiscard]] bool NodeIsPublished() const {
    return std::count_if(entry_.figures.begin(), entry_.figures.end(), [](const ChipFigure& f) {
             return (f.name == "usual_node_device_count" || f.name == "usual_node_nic_count" ||
                     f.name == "usual_node_nic_gigabits_per_second") &&
                    f.provenance != Provenance::kAssumed;
           }) == 3;
  }

  void ReadCollectives(ObjectReader& top) {
    const Json* list = top.Find("collectives");
    if (list == nullptr) return;
    if (!list->is_array()) {
      top.Reject("collectives", fmt::format("{}; must be a list", Shown(*list)));
      return;
    }
    for (std::size_t i = 0; i < list->size(); ++i) {
      const std::string key = fmt::format("collectives[{}]", i);
      if ((*list)[i].is_object()) {
        ReadCollective((*list)[i], path_ + key + ".");
      } else {
        top.Reject(key, "must be an object");
      }
    }
  }

  void ReadCollective(const Json& object, std::string path) {
    ObjectReader reader(object, std::move(path), violations_);
    reader.AllowOnly(kCollectiveKeys);
    CollectiveFit fit;
    const std::string word = reader.Text("kind");
    const auto kind = std::find_if(std::begin(kCollectiveWords), std::end(kCollectiveWords),
                                   [&word](const CollectiveWord& w) { return w.word == word; });
    if (kind != std::end(kCollectiveWords)) {
      fit.kind = kind->kind;
    } else if (!word.empty()) {
      reader.Reject("kind", word +
                                "; must be one of all_reduce, all_gather, reduce_scatter, "
                                "all_to_all");
    }
    fit.ranks = static_cast<int>(
        reader.Number("rank_count", {.low = 2, .high = 1e6, .is_whole = true}).value_or(0));
    fit.alpha = Seconds(reader.Number("alpha_seconds", {.low = 0, .high = 1}).value_or(0));
    fit.bandwidth = {
        reader.Number("bandwidth_bytes_per_second", {.low = 1e8, .high = 1e14}).value_or(0)};
    fit.half = RoundedBytes(reader.Number("half_bytes", {.low = 0, .high = 1e12}).value_or(0));
    const Provenance provenance =
        KeepFigure(fmt::format("collective_{}_{}_ranks", word, fit.ranks),
                   fmt::format("alpha_seconds {:g}, bandwidth_bytes_per_second {}, half_bytes {}",
                               fit.alpha.count(), NumberText(fit.bandwidth.rate), fit.half.count),
                   reader);
    collectives_ = std::max(collectives_.value_or(Provenance::kMeasured), provenance);
    entry_.spec.collectives.push_back(fit);
  }

  void ConcludeProvenance() {
    const auto of = [this](FigureGroup group) { return weakest_[static_cast<std::size_t>(group)]; };
    ChipSpec& spec = entry_.spec;
    spec.figures_provenance =
        std::max(of(FigureGroup::kMemory), peak_.value_or(Provenance::kAssumed));
    spec.gemm_provenance = of(FigureGroup::kGemm);
    spec.attention_provenance = of(FigureGroup::kAttention);
    spec.memory_bound_provenance = of(FigureGroup::kMemoryBound);
    spec.collectives_provenance = collectives_.value_or(Provenance::kAssumed);
  }

  std::string path_;
  ChipEntry entry_;
  std::vector<FieldViolation> violations_;
  // Provenance runs from the strongest to the weakest, so the greatest is the weakest.
  std::array<Provenance, static_cast<std::size_t>(FigureGroup::kNone) + 1> weakest_;
  std::optional<Provenance> peak_;
  std::optional<Provenance> collectives_;
};

}  // namespace

absl::StatusOr<ChipEntry> ParseChipFile(std::string_view name, std::string_view text) {
  Json file;
  try {
    file = Json::parse(text);
  } catch (const Json::exception& error) {
    return InvalidFields({{.field = fmt::format("{}.json", name), .description = error.what()}});
  }
  if (!file.is_object()) {
    return InvalidFields({{.field = fmt::format("{}.json", name),
                           .description = Shown(file) + "; must be a JSON object"}});
  }
  ChipFileReader reader(name);
  reader.Read(file, name);
  return std::move(reader).Conclude();
}

}  // namespace meshwright
