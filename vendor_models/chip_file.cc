#include "vendor_models/chip_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "search_space/base/clean_text.h"
#include "search_space/base/json_text.h"
#include "search_space/base/shown_value.h"
#include "search_space/base/status.h"
#include "search_space/spec/choices.h"
#include "vendor_models/collective_row.h"
#include "vendor_models/figure_table.h"
#include "vendor_models/gemm_tiles.h"
#include "vendor_models/object_reader.h"
#include "vendor_models/residual_table.h"

namespace meshwright {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kTopKeys[] = {
    "aliases", "collectives", "confidence", "figures",        "gemm_residuals", "gemm_tiles",
    "id",      "name",        "notes",      "reported_names", "vendor"};
constexpr std::string_view kNameKeys[] = {"name", "source"};
constexpr std::string_view kFigureKeys[] = {"confidence", "provenance", "source", "value"};
std::string NumberText(double value) {
  return value == std::floor(value) && std::abs(value) < 1e18 ? fmt::format("{:.0f}", value)
                                                              : fmt::format("{}", value);
}

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
    if (top.Has("reported_names")) ReadReportedNames(file["reported_names"], top);
    if (file.contains("notes") && file["notes"].is_string()) {
      entry_.notes = file["notes"].get<std::string>();
    } else {
      top.Reject("notes", "missing; must be a text, which may be empty");
    }
    ReadFigures(top);
    ReadCollectives(top);
    ReadTiles(top);
    if (file.contains("gemm_residuals")) ReadResiduals(file["gemm_residuals"], top);
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
      top.Reject("aliases", fmt::format("{}; must be a list of texts", ShownValue(*aliases)));
      return;
    }
    for (const Json& alias : *aliases) {
      if (alias.is_string() && !alias.get_ref<const std::string&>().empty()) {
        entry_.spec.aliases.push_back(alias.get<std::string>());
      } else {
        top.Reject("aliases", fmt::format("{}; must be a list of texts", ShownValue(alias)));
      }
    }
  }

  void ReadReportedNames(const Json& list, ObjectReader& top) {
    if (!list.is_array()) {
      top.Reject("reported_names", fmt::format("{}; must be a list", ShownValue(list)));
      return;
    }
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::string key = fmt::format("reported_names[{}]", i);
      if (!list[i].is_object()) {
        top.Reject(key, fmt::format("{}; must be an object of {}", ShownValue(list[i]),
                                    fmt::join(kNameKeys, ", ")));
        continue;
      }
      ObjectReader reader(list[i], path_ + key + ".", violations_);
      reader.AllowOnly(kNameKeys);
      ReportedName name = {.name = reader.Text("name"), .source = reader.Text("source")};
      entry_.reported_names.push_back(std::move(name));
    }
  }

  void ReadFigures(ObjectReader& top) {
    const Json* figures = top.Find("figures");
    if (figures == nullptr) return;
    if (!figures->is_object()) {
      top.Reject("figures", fmt::format("{}; must be an object", ShownValue(*figures)));
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
    if (given.contains("torus_axis_count") &&
        entry_.spec.scale_up.topology != NodeTopology::kTorus) {
      reader.Reject("torus_axis_count",
                    fmt::format("given, but scale_up_topology is {}; leave it out, or state torus",
                                Word(entry_.spec.scale_up.topology)));
    }
    if (given.contains("memory_capacity_bytes") &&
        entry_.spec.reported_memory_capacity > entry_.spec.memory_capacity) {
      reader.Reject("reported_memory_capacity_bytes",
                    fmt::format("{}; must be <= memory_capacity_bytes = {}",
                                entry_.spec.reported_memory_capacity.count,
                                entry_.spec.memory_capacity.count));
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
    if (row.group == FigureGroup::kShown && provenance != Provenance::kMeasured &&
        provenance != Provenance::kTransferred) {
      reader->Reject("provenance", fmt::format("{}; must be measured, or transferred from what was",
                                               Word(provenance)));
    }
    if (row.group == FigureGroup::kPeak) {
      // If only one peak is published, it stands in for the other, so the better source counts.
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
      figures.Reject(key, fmt::format("{}; must be an object of {}", ShownValue(figure),
                                      fmt::join(kFigureKeys, ", ")));
      return std::nullopt;
    }
    ObjectReader reader(figure, fmt::format("{}figures.{}.", path_, key), violations_);
    reader.AllowOnly(kFigureKeys);
    return reader;
  }

  // Reads the source of a figure and lists the figure.
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

  void ListDefault(std::string_view key, std::string value) {
    entry_.figures.push_back({.name = std::string(key),
                              .value = std::move(value),
                              .source = std::string(kClassDefault),
                              .provenance = Provenance::kAssumed,
                              .confidence = Confidence::kLow});
  }

  void ListDefaults(const std::set<std::string_view>& given) {
    for (const NumberFigure& row : NumberFigures()) {
      if (given.contains(row.key) || row.need != FigureNeed::kDefaulted) continue;
      const std::optional<double> value = row.get(entry_.spec);
      if (value.has_value()) ListDefault(row.key, NumberText(*value));
      Weaken(row.group, Provenance::kAssumed);
    }
    for (const WordFigure& row : WordFigures()) {
      if (!given.contains(row.key)) ListDefault(row.key, std::string(row.get(entry_.spec)));
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
      top.Reject("collectives", fmt::format("{}; must be a list", ShownValue(*list)));
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
    CollectiveFit fit = ParseCollective(reader);
    const Provenance provenance = KeepFigure(CollectiveName(fit), CollectiveText(fit), reader);
    collectives_ = std::max(collectives_.value_or(Provenance::kMeasured), provenance);
    entry_.spec.collectives.push_back(std::move(fit));
  }

  void ReadTiles(ObjectReader& top) {
    if (!top.Has("gemm_tiles")) {
      ListDefault("gemm_tiles", TilesText(entry_.spec.gemm_tiles));
      return;
    }
    const Json& object = *top.Find("gemm_tiles");
    if (!object.is_object()) {
      top.Reject("gemm_tiles", fmt::format("{}; must be an object", ShownValue(object)));
      return;
    }
    ObjectReader reader(object, path_ + "gemm_tiles.", violations_);
    entry_.spec.gemm_tiles = ParseTiles(reader);
    KeepFigure("gemm_tiles", TilesText(entry_.spec.gemm_tiles), reader);
  }

  void ReadResiduals(const Json& list, ObjectReader& top) {
    if (!list.is_array()) {
      top.Reject("gemm_residuals", fmt::format("{}; must be a list", ShownValue(list)));
      return;
    }
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::string key = fmt::format("gemm_residuals[{}]", i);
      if (list[i].is_object()) {
        ReadResidualTable(list[i], path_ + key + ".");
      } else {
        top.Reject(key, "must be an object");
      }
    }
  }

  void ReadResidualTable(const Json& object, std::string path) {
    ObjectReader reader(object, std::move(path), violations_);
    GemmResidualTable table = ParseResidualTable(reader);
    const std::string name = ResidualTableName(table);
    for (const ChipFigure& figure : entry_.figures) {
      if (figure.name == name) reader.Reject("pass", "a second table of this precision and pass");
    }
    Weaken(FigureGroup::kGemm,
           KeepFigure(name, fmt::format("{} shapes", table.shapes.size()), reader));
    entry_.spec.gemm_residuals.push_back(std::move(table));
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
                           .description = ShownValue(file) + "; must be a JSON object"}});
  }
  std::vector<FieldViolation> mistakes = JsonTextMistakes(file, "", TextLayout::kOneLine);
  for (FieldViolation& mistake : mistakes)
    mistake.field = fmt::format("{}.json: {}", name, mistake.field);
  if (!mistakes.empty()) return InvalidFields(mistakes);
  ChipFileReader reader(name);
  reader.Read(file, name);
  return std::move(reader).Conclude();
}

}  // namespace meshwright
