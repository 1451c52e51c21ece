#include "server/tuner/question/job_template.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

namespace meshwright {
namespace {

// The harness's rule for secret names (workloads/measure/masking.json): the last word, or any word.
constexpr std::string_view kSecretEndings[] = {"TOKEN",  "SECRET",     "PASSWORD",
                                               "PASSWD", "PASSPHRASE", "KEY",
                                               "APIKEY", "CREDENTIAL", "CREDENTIALS"};
constexpr std::string_view kSecretWords[] = {"SECRET", "PASSWORD", "PASSWD", "PASSPHRASE",
                                             "CREDENTIAL"};

// A piece of a word: literal text or the name of a placeholder.
struct Piece {
  std::string text = {};
  bool is_placeholder = false;
};

// Splits a word into pieces. Returns nullopt if a brace has no counterpart.
std::optional<std::vector<Piece>> PiecesOf(std::string_view word) {
  std::vector<Piece> pieces(1);
  for (std::size_t i = 0; i < word.size(); ++i) {
    const char c = word[i];
    if (c != '{' && c != '}') {
      pieces.back().text += c;
      continue;
    }
    if (i + 1 < word.size() && word[i + 1] == c) {
      pieces.back().text += c;
      ++i;
      continue;
    }
    const std::size_t end = word.find('}', i);
    if (c == '}' || end == std::string_view::npos) return std::nullopt;
    pieces.push_back(
        {.text = std::string(word.substr(i + 1, end - i - 1)), .is_placeholder = true});
    pieces.emplace_back();
    i = end;
  }
  return pieces;
}

bool IsName(std::string_view name) {
  const auto is_letter = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name.front())) == 0 &&
         std::ranges::all_of(name, is_letter);
}

bool IsNamedLikeASecret(std::string_view name) {
  std::string upper(name);
  std::ranges::transform(upper, upper.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  const std::string last = upper.substr(upper.rfind('_') + 1);
  return std::ranges::find(kSecretEndings, last) != std::end(kSecretEndings) ||
         std::ranges::any_of(kSecretWords, [&](std::string_view word) {
           return upper.find(word) != std::string::npos;
         });
}

}  // namespace

const std::vector<std::string>& PlaceholderNames() {
  static const std::vector<std::string> kNames = {"attempt",
                                                  "case_file",
                                                  "context_parallel",
                                                  "context_parallel_kind",
                                                  "data_parallel",
                                                  "expert_parallel",
                                                  "expert_tensor_parallel",
                                                  "folder",
                                                  "global_batch_size",
                                                  "gradient_accumulation_steps",
                                                  "micro_batch_size",
                                                  "node_count",
                                                  "pipeline_parallel",
                                                  "processes_per_node",
                                                  "recompute",
                                                  "schedule",
                                                  "sequence_length",
                                                  "sequence_parallel",
                                                  "tensor_parallel",
                                                  "virtual_pipeline",
                                                  "workloads_folder",
                                                  "world_size",
                                                  "zero_stage"};
  return kNames;
}

std::optional<std::string> PlaceholderMistake(std::string_view word) {
  if (word == kFlagsPlaceholder) return std::nullopt;
  const auto pieces = PiecesOf(word);
  if (!pieces.has_value()) {
    return fmt::format("'{}'; must close every brace; write a literal brace twice", word);
  }
  for (const Piece& piece : *pieces) {
    if (!piece.is_placeholder) continue;
    if (std::ranges::find(PlaceholderNames(), piece.text) != PlaceholderNames().end()) continue;
    return fmt::format("'{}'; must name in braces one of {}, or be only {}", word,
                       fmt::join(PlaceholderNames(), ", "), kFlagsPlaceholder);
  }
  return std::nullopt;
}

std::string WithPlaceholders(std::string_view word, const PlaceholderValue& value) {
  std::string out;
  for (const Piece& piece : PiecesOf(word).value_or(std::vector<Piece>())) {
    out += piece.is_placeholder ? value(piece.text).value_or("") : piece.text;
  }
  return out;
}

std::optional<std::string> VariableMistake(std::string_view entry) {
  const std::size_t equals = entry.find('=');
  const std::string_view name = entry.substr(0, equals);
  if (!IsName(name)) {
    return fmt::format("'{}'; must be NAME=VALUE or NAME, of letters, digits and _", name);
  }
  if (equals != std::string_view::npos && IsNamedLikeASecret(name)) {
    return fmt::format(
        "{} with a value; must be stated as only {}, so that the launcher takes the value from "
        "its own environment: requests are stored",
        name, name);
  }
  return std::nullopt;
}

}  // namespace meshwright
