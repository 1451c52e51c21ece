#include "cli/reports/chip_table.h"

#include <fmt/format.h>

#include <cstddef>

#include "cli/reports/table.h"
#include "cli/reports/words.h"
#include "cli/reports/wrap.h"

namespace meshwright {
namespace {

// The width of a figure that is a number or a word. Lists, as those of collectives, are wider.
constexpr std::size_t kMostFigure = 20;

// Shows a rate in tera; hosts have a hundredth of an accelerator's, so small ones get more digits.
std::string TeraText(double value) {
  return value < 1e11 ? fmt::format("{:.3f}", value / 1e12) : fmt::format("{:.1f}", value / 1e12);
}

// Shows the nominal dense 16-bit peak, by which chips are compared. A few chips have only one of
// the two formats.
std::string PeakText(const v1::Chip& chip) {
  for (const char* precision : {"bf16", "fp16"}) {
    const auto peak = chip.peak_flops_per_second().find(precision);
    if (peak != chip.peak_flops_per_second().end()) return TeraText(peak->second);
  }
  return "-";
}

std::string IndentedLine(const std::string& text, int columns) {
  return Wrapped(text, columns, kIndent, std::string(kIndent) + kIndent);
}

std::string GigaText(double value) { return fmt::format("{:.1f}", value / 1e9); }

Table GroupTable(const v1::Chip& chip) {
  Table groups({{.title = "ranks of a domain", .align = Align::kRight},
                {.title = "all-reduce GB/s", .align = Align::kRight},
                {.title = "all-to-all GB/s", .align = Align::kRight},
                {.title = "as estimated, bus bandwidth at 1 GiB"}});
  for (const v1::GroupBandwidth& group : chip.group_bandwidths()) {
    groups.AddRow({fmt::format("{}", group.rank_count()),
                   GigaText(group.all_reduce_bytes_per_second()),
                   GigaText(group.all_to_all_bytes_per_second()), group.provenance()});
  }
  return groups;
}

}  // namespace

std::string ChipTable(const v1::ListChipsResponse& chips, int columns) {
  Table table({{.title = "chip"},
               {.title = "memory GiB", .align = Align::kRight},
               {.title = "TB/s", .align = Align::kRight},
               {.title = "16-bit TFLOP/s", .align = Align::kRight},
               {.title = "confidence"},
               {.title = "name"}});
  for (const v1::Chip& chip : chips.chips()) {
    table.AddRow({chip.id(), GibText(chip.memory_capacity_bytes()),
                  TeraText(chip.memory_bandwidth_bytes_per_second()), PeakText(chip),
                  chip.confidence(), chip.name()});
  }
  std::string text = table.Text("", columns);
  if (chips.unmodelled_chips().empty()) return text;
  Table unmodelled({{.title = "not modelled"}, {.title = "missing"}});
  for (const v1::UnmodelledChip& chip : chips.unmodelled_chips()) {
    unmodelled.AddRow({chip.id(), chip.missing()});
  }
  return text + "\n" + unmodelled.Text("", columns);
}

std::string ChipReport(const v1::Chip& chip, int columns) {
  std::string text = fmt::format("{}: {}\n{}vendor: {}\n{}confidence: {}\n", chip.id(), chip.name(),
                                 kIndent, chip.vendor(), kIndent, chip.confidence());
  if (!chip.aliases().empty()) {
    text += IndentedLine(fmt::format("aliases: {}", fmt::join(chip.aliases(), ", ")), columns);
  }
  for (const v1::ReportedName& name : chip.reported_names()) {
    text += IndentedLine(fmt::format("tools name it {} ({})", name.name(), name.source()), columns);
  }
  if (!chip.notes().empty()) text += IndentedLine("notes: " + chip.notes(), columns);
  Table figures({{.title = "figure"},
                 {.title = "value", .most = kMostFigure},
                 {.title = "provenance"},
                 {.title = "confidence"},
                 {.title = "source"}});
  for (const v1::Figure& figure : chip.figures()) {
    figures.AddRow(
        {figure.name(), figure.value(), figure.provenance(), figure.confidence(), figure.source()});
  }
  text += "\n" + figures.Text(kIndent, columns);
  return chip.group_bandwidths().empty() ? text
                                         : text + "\n" + GroupTable(chip).Text(kIndent, columns);
}

std::string ServerTable(const v1::GetServerInfoResponse& server, int columns) {
  Table table({{}, {}});
  table.AddRow({"version", server.version()});
  table.AddRow({"API", server.api_version()});
  table.AddRow({"store schema", fmt::format("{}", server.store_schema_version())});
  table.AddRow({"prune rules", fmt::format("{}", fmt::join(server.prune_rules(), ", "))});
  table.AddRow({"strategies", fmt::format("{}", fmt::join(server.strategies(), ", "))});
  table.AddRow({"frameworks", fmt::format("{}", fmt::join(server.frameworks(), ", "))});
  table.AddRow({"chips", fmt::format("{}", server.chip_count())});
  if (server.job_templates_size() > 0) {
    table.AddRow({"job templates", fmt::format("{}", fmt::join(server.job_templates(), ", "))});
  }
  if (server.has_store_bytes()) {
    table.AddRow({"store", fmt::format("{:.1f} MiB",
                                       static_cast<double>(server.store_bytes()) / (1 << 20))});
  }
  return table.Text("", columns);
}

std::string CallerTable(const v1::ListCallersResponse& callers, int columns) {
  if (!callers.has_list()) return "everybody may call: the server has no list of callers\n";
  Table table({{.title = "caller"},
               {.title = "role"},
               {.title = "calls", .align = Align::kRight},
               {.title = "role too low", .align = Align::kRight},
               {.title = "failed", .align = Align::kRight},
               {.title = "open", .align = Align::kRight},
               {.title = "device hours", .align = Align::kRight},
               {.title = "last call"}});
  const auto hours = [](bool is_known, double seconds) {
    constexpr double kSecondsPerHour = 3600;
    return is_known ? fmt::format("{:.4g}", seconds / kSecondsPerHour) : std::string("-");
  };
  for (const v1::Caller& caller : callers.callers()) {
    table.AddRow({caller.is_listed() ? caller.name() : caller.name() + " (not listed)",
                  caller.role(), fmt::format("{}", caller.call_count()),
                  fmt::format("{}", caller.refused_count()),
                  fmt::format("{}", caller.failed_count()),
                  caller.has_open_study_count() ? fmt::format("{}", caller.open_study_count())
                                                : std::string("-"),
                  hours(caller.has_device_seconds(), caller.device_seconds()),
                  caller.last_call_time().empty() ? "-" : caller.last_call_time()});
  }
  return table.Text("", columns) + fmt::format("counted from {}; {} calls of unknown callers\n",
                                               callers.counted_from(),
                                               callers.unknown_call_count());
}

}  // namespace meshwright
