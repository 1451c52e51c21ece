#include "tests/layering/layering.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "tests/layering/folders.h"

namespace meshwright {
namespace {

constexpr int kMaxLines = 500;

constexpr std::string_view kThreadHeaders[] = {
    "thread", "mutex",   "shared_mutex", "condition_variable",
    "future", "barrier", "latch",        "semaphore"};
constexpr std::string_view kClocks[] = {"system_clock", "steady_clock", "high_resolution_clock"};

std::string_view WithoutLeadingSpace(std::string_view text) {
  const size_t start = text.find_first_not_of(" \t");
  return start == std::string_view::npos ? std::string_view() : text.substr(start);
}

std::optional<std::string> CheckLibrary(const LibraryRule& rule, const FolderRule& folder,
                                        bool is_header, std::string_view header) {
  if (!Names(rule.folders, folder.path)) {
    return fmt::format("{}/ may not include {}{}{}", folder.path, header,
                       rule.reason.empty() ? "" : ": ", rule.reason);
  }
  if (rule.sources_only && is_header) {
    return fmt::format("{} belongs into .cc files, not into a header", header);
  }
  return std::nullopt;
}

std::optional<std::string> CheckInclude(const Include& include, const FolderRule& folder,
                                        bool is_header) {
  const std::string_view header = include.header;
  if (const FolderRule* used = FindFolder(header); used != nullptr) {
    if (used->path == folder.path || Names(folder.may_use, used->path)) {
      return std::nullopt;
    }
    return fmt::format("{}/ may not use {}/ ({})", folder.path, used->path, header);
  }
  const LibraryRule* const library = FindLibrary(header);
  if (library != nullptr && !folder.may_use_any_library) {
    std::optional<std::string> wrong = CheckLibrary(*library, folder, is_header, header);
    if (wrong.has_value()) return wrong;
  }
  if (library != nullptr && include.is_quoted != library->is_quoted) {
    return fmt::format("{} belongs in {}", header, library->is_quoted ? "quotes" : "brackets");
  }
  if (library != nullptr || folder.may_use_any_library) {
    return std::nullopt;
  }
  if (include.is_quoted) {
    return fmt::format("\"{}\" starts at no folder of the project", header);
  }
  if (header.find('/') != std::string_view::npos) {
    return fmt::format("<{}> is of a library that the table does not know", header);
  }
  if (folder.is_pure && std::ranges::find(kThreadHeaders, header) != std::end(kThreadHeaders)) {
    return fmt::format("{}/ starts no threads: no <{}>", folder.path, header);
  }
  return std::nullopt;
}

// Comments may mention clocks. No string of ours has "//" before the name of one.
std::optional<std::string> CheckClock(std::string_view line, const FolderRule& folder) {
  const std::string_view code = line.substr(0, line.find("//"));
  for (const std::string_view clock : kClocks) {
    if (code.find(clock) == std::string_view::npos) {
      continue;
    }
    return fmt::format("{}/ reads no clock: no {}", folder.path, clock);
  }
  return std::nullopt;
}

// Checks a line that is no include.
std::optional<std::string> CheckCalls(std::string_view line, const FolderRule& folder) {
  const std::string_view code = line.substr(0, line.find("//"));
  for (const CallRule& rule : CallRules()) {
    if (code.find(rule.call) == std::string_view::npos || Names(rule.folders, folder.path))
      continue;
    return fmt::format("{}/ may not call {}): {}", folder.path, rule.call, rule.reason);
  }
  return std::nullopt;
}

std::optional<std::string> CheckCode(std::string_view line, const FolderRule& folder) {
  if (folder.may_use_any_library) return std::nullopt;
  std::optional<std::string> wrong = CheckCalls(line, folder);
  return !wrong && folder.is_pure ? CheckClock(line, folder) : wrong;
}

}  // namespace

std::optional<Include> ParseInclude(std::string_view line) {
  constexpr std::string_view kInclude = "include";
  line = WithoutLeadingSpace(line);
  if (!line.starts_with('#')) {
    return std::nullopt;
  }
  line = WithoutLeadingSpace(line.substr(1));
  if (!line.starts_with(kInclude)) {
    return std::nullopt;
  }
  line = WithoutLeadingSpace(line.substr(kInclude.size()));
  if (line.empty() || (line.front() != '"' && line.front() != '<')) {
    return std::nullopt;
  }
  const bool is_quoted = line.front() == '"';
  const size_t end = line.find(is_quoted ? '"' : '>', 1);
  if (end == std::string_view::npos) {
    return std::nullopt;
  }
  return Include{.header = line.substr(1, end - 1), .is_quoted = is_quoted};
}

std::vector<std::string_view> SplitLines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::vector<Violation> CheckSource(std::string_view path, std::string_view text) {
  std::vector<Violation> violations;
  const auto report = [&](size_t line, std::string message) {
    violations.push_back(
        {.file = std::string(path), .line = static_cast<int>(line), .message = std::move(message)});
  };
  const FolderRule* const folder = FindFolder(path);
  if (folder == nullptr) {
    report(1, "lies in no folder of the table");
    return violations;
  }
  const bool is_header = path.ends_with(".h");
  const std::vector<std::string_view> lines = SplitLines(text);
  if (lines.size() > kMaxLines) {
    report(1, fmt::format("{} lines; at most {}: split it by concept", lines.size(), kMaxLines));
  }
  if (is_header && std::ranges::find(lines, "#pragma once") == lines.end()) {
    report(1, "header without #pragma once");
  }
  for (size_t i = 0; i < lines.size(); ++i) {
    std::optional<std::string> wrong;
    if (const std::optional<Include> include = ParseInclude(lines[i])) {
      wrong = CheckInclude(*include, *folder, is_header);
    } else {
      wrong = CheckCode(lines[i], *folder);
    }
    if (wrong) {
      report(i + 1, *std::move(wrong));
    }
  }
  return violations;
}

}  // namespace meshwright
