#include "server/tuner/import/text/shell_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <span>
#include <sstream>
#include <utility>

#include "server/tuner/import/text/shell_condition.h"
#include "server/tuner/import/text/shell_lexer.h"
#include "server/tuner/import/text/shell_variables.h"

namespace meshwright {
namespace {

constexpr int kMaxDepth = 16;  // of files that source each other, and of commands in texts
constexpr int kMaxStatementNesting = 256;      // of conditions, and of commands that && or || joins
constexpr std::size_t kMaxBytes = 16U << 20U;  // of the script and all that it sources

// Returns the length of "NAME=" or "NAME+=" at the begin of a word; 0 if there is none.
std::size_t AssignmentLength(std::string_view word) {
  std::size_t at = 0;
  while (at < word.size() &&
         (std::isalnum(static_cast<unsigned char>(word[at])) != 0 || word[at] == '_')) {
    ++at;
  }
  if (at == 0 || std::isdigit(static_cast<unsigned char>(word[0])) != 0) return 0;
  if (word.substr(at).starts_with("+=")) return at + 2;
  return word.substr(at).starts_with("=") ? at + 1 : 0;
}

bool IsOneOf(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

bool IsRedirection(std::string_view name) {
  return IsOneOf(name, {">", ">>", "<", "<<<", "&>", "&>>", ">&", "<&"});
}

class ScriptReader {
 public:
  ScriptReader(std::string_view file, const std::map<std::string, std::string>& stated,
               const OpenFile& open_file)
      : file_(file), variables_(stated), open_file_(open_file) {}

  ShellScript Read(std::string_view text) {
    ReadBatchOptions(text);
    ReadText(text, 0);
    script_.variables = variables_.Texts();
    return std::move(script_);
  }

 private:
  // A list of tokens that is being read.
  struct Source {
    std::vector<ShellToken> tokens;
    std::size_t at = 0;
    int depth = 0;
    int line = 0;  // of the command whose words these are; 0: the tokens have their own lines

    [[nodiscard]] bool IsAtEnd() const { return at >= tokens.size(); }
    [[nodiscard]] const ShellToken& Peek() const { return tokens[at]; }
    [[nodiscard]] bool IsOperator(std::string_view name) const {
      return !IsAtEnd() && Peek().kind == ShellTokenKind::kOperator && Peek().text == name;
    }
    [[nodiscard]] bool IsWord(std::string_view name) const {
      return !IsAtEnd() && Peek().kind == ShellTokenKind::kWord && Peek().text == name;
    }
  };

  void ReadBatchOptions(std::string_view text) {
    std::istringstream lines{std::string(text)};
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("#SBATCH")) continue;
      std::ranges::replace(line, '=', ' ');
      std::istringstream words(line.substr(7));
      std::string option;
      std::string value;
      words >> option >> value;
      script_.batch[option] = value;
      if (option == "--nodes" || option == "-N") {
        for (const char* name : {"SLURM_NNODES", "SLURM_JOB_NUM_NODES"}) {
          variables_.AssignText(name, value, false);
        }
      }
    }
  }

  void ReadText(std::string_view text, int depth, int line = 0) {
    read_bytes_ += text.size();
    if (read_bytes_ > kMaxBytes) {
      Note(line, fmt::format("more than {} bytes with all that is sourced; the rest is not read",
                             kMaxBytes));
      return;
    }
    Source source = {.tokens = LexShell(text), .depth = depth, .line = line};
    while (!source.IsAtEnd()) ReadStatement(source, true);
  }

  void Note(int line, std::string_view what) {
    script_.notes.push_back(fmt::format("{} line {}: {}", file_, line, what));
  }

  // Reads statements up to one of the words.
  void ReadUntil(Source& source, bool is_active, std::initializer_list<std::string_view> ends) {
    while (!source.IsAtEnd()) {
      const bool is_end =
          source.Peek().kind != ShellTokenKind::kArray && IsOneOf(source.Peek().text, ends);
      if (is_end) return;
      ReadStatement(source, is_active);
    }
  }

  void ReadStatement(Source& source, bool is_active) {
    const ShellToken& token = source.Peek();
    if (token.kind == ShellTokenKind::kOperator) {
      ++source.at;
      return;
    }
    if (nesting_ >= kMaxStatementNesting) {
      Note(token.line,
           fmt::format("nested deeper than {} levels; the rest is not read", kMaxStatementNesting));
      source.at = source.tokens.size();
      return;
    }
    ++nesting_;
    ReadNested(source, is_active);
    --nesting_;
  }

  void ReadNested(Source& source, bool is_active) {
    if (source.IsWord("if")) return ReadIf(source, is_active);
    if (source.IsWord("case")) return ReadCase(source, is_active);
    if (source.IsWord("for") || source.IsWord("while") || source.IsWord("until")) {
      return ReadLoop(source, is_active);
    }
    if (source.IsWord("{") || source.IsWord("}") || source.IsWord("function")) {
      ++source.at;
      return;
    }
    ReadCommand(source, is_active);
  }

  void ReadIf(Source& source, bool is_active) {
    bool is_decided = false;
    while (!source.IsAtEnd() && !source.IsWord("fi")) {
      const int line = source.Peek().line;
      const bool is_else = source.IsWord("else");
      ++source.at;  // if, elif or else
      Truth truth = true;
      if (!is_else) {
        const std::size_t begin = source.at;
        while (!source.IsAtEnd() && !source.IsWord("then")) ++source.at;
        const std::span condition(source.tokens.begin() + static_cast<std::ptrdiff_t>(begin),
                                  source.tokens.begin() + static_cast<std::ptrdiff_t>(source.at));
        truth = ShellCondition(condition, variables_);
        if (!source.IsAtEnd()) ++source.at;
        if (is_active && !is_decided && !truth.has_value()) {
          Note(line, "a condition that cannot be decided here; taken as false");
        }
      }
      const bool runs = is_active && !is_decided && truth == true;
      is_decided = is_decided || truth == true;
      ReadUntil(source, runs, {"elif", "else", "fi"});
    }
    if (!source.IsAtEnd()) ++source.at;
  }

  void ReadCase(Source& source, bool is_active) {
    const int line = source.Peek().line;
    ++source.at;
    const std::string value = source.IsAtEnd() ? "" : variables_.Text(source.Peek().text);
    while (!source.IsAtEnd() && !source.IsWord("in")) ++source.at;
    if (!source.IsAtEnd()) ++source.at;
    const bool is_known = UnresolvedIn(value).empty();
    if (is_active && !is_known) {
      Note(line, fmt::format("a case of {}, which has no value here; skipped", Shown(value)));
    }
    bool is_decided = !is_known;
    while (!source.IsAtEnd() && !source.IsWord("esac")) {
      const bool matches = ReadPatterns(source, value);
      if (source.IsOperator(")")) ++source.at;
      ReadUntil(source, is_active && matches && !is_decided, {";;", "esac"});
      is_decided = is_decided || matches;
      if (source.IsOperator(";;")) ++source.at;
    }
    if (!source.IsAtEnd()) ++source.at;
  }

  // Reads "7b|13b" up to its bracket, and returns true if one of the patterns matches.
  bool ReadPatterns(Source& source, const std::string& value) {
    bool matches = false;
    for (; !source.IsAtEnd() && !source.IsOperator(")") && !source.IsWord("esac"); ++source.at) {
      if (source.Peek().kind != ShellTokenKind::kWord) continue;
      const std::string pattern = variables_.Text(source.Peek().text);
      matches = matches || MatchesPattern(value, pattern).value_or(false);
    }
    return matches;
  }

  void ReadLoop(Source& source, bool is_active) {
    if (is_active) Note(source.Peek().line, "a loop; skipped");
    while (!source.IsAtEnd() && !source.IsWord("do")) ++source.at;
    if (!source.IsAtEnd()) ++source.at;
    ReadUntil(source, false, {"done"});
    if (!source.IsAtEnd()) ++source.at;
  }

  // A command while its words are read.
  struct OpenCommand {
    std::vector<std::string> words = {};
    std::string target = {};    // of ">"
    std::string document = {};  // the here-document
  };

  void ReadCommand(Source& source, bool is_active) {
    const std::size_t begin = source.at;
    const int line = source.line > 0 ? source.line : source.Peek().line;
    OpenCommand open;
    while (!source.IsAtEnd() && ReadPart(source, is_active, open)) ++source.at;
    if (!is_active || IsTestBefore(source, begin)) return;
    if (!open.document.empty() && !open.target.empty()) {
      script_.files.push_back({.name = open.target, .text = variables_.Document(open.document)});
    }
    if (!open.words.empty()) Finish({.words = std::move(open.words), .line = line}, source.depth);
  }

  // Reads a token of a command; returns false at the operator that ends it.
  bool ReadPart(Source& source, bool is_active, OpenCommand& open) {
    const ShellToken& token = source.Peek();
    switch (token.kind) {
      case ShellTokenKind::kHereDocument:
        open.document = token.items.empty() ? "" : token.items.front();
        return true;
      case ShellTokenKind::kArray:
        if (is_active && open.words.empty()) AssignArray(token);
        return true;
      case ShellTokenKind::kWord:
        AddWord(token, is_active, open.words);
        return true;
      case ShellTokenKind::kOperator:
        break;
    }
    if (!IsRedirection(token.text)) return false;
    // "2>&1": the number before is no word of the command.
    const bool has_number =
        !open.words.empty() && (open.words.back() == "2" || open.words.back() == "1");
    if (has_number) open.words.pop_back();
    if (source.at + 1 < source.tokens.size()) ++source.at;
    if (token.text.starts_with('>')) open.target = variables_.Text(source.Peek().text);
    return true;
  }

  // Handles "[ ... ] && command": skips the command if the condition is not true.
  bool IsTestBefore(Source& source, std::size_t begin) {
    const std::string& first = source.tokens[begin].text;
    if (first != "[" && first != "[[" && first != "test") return false;
    const bool is_and = source.IsOperator("&&");
    if (!is_and && !source.IsOperator("||")) return true;
    const std::span condition(source.tokens.begin() + static_cast<std::ptrdiff_t>(begin),
                              source.tokens.begin() + static_cast<std::ptrdiff_t>(source.at));
    const Truth truth = ShellCondition(condition, variables_);
    ++source.at;
    if (source.IsAtEnd()) return true;
    if (!truth.has_value()) {
      Note(source.tokens[begin].line, "a condition that cannot be decided here; taken as false");
    }
    ReadStatement(source, truth.value_or(false) == is_and);
    return true;
  }

  void AssignArray(const ShellToken& token) {
    const bool appends = token.text.ends_with("+=");
    std::vector<std::string> values;
    for (const std::string& item : token.items) {
      for (std::string& word : variables_.Words(item)) values.push_back(std::move(word));
    }
    variables_.Assign(token.text.substr(0, token.text.size() - (appends ? 2 : 1)),
                      std::move(values), appends);
  }

  // Adds the words of a token, or assigns if it stands before the command or behind `export`.
  void AddWord(const ShellToken& token, bool is_active, std::vector<std::string>& words) {
    if (!is_active) return;
    const std::size_t length = AssignmentLength(token.text);
    const bool is_before = words.empty() || IsOneOf(words.front(), {"export", "declare", "local",
                                                                    "readonly", "typeset"});
    if (length == 0 || !is_before) {
      for (std::string& word : variables_.Words(token.text)) words.push_back(std::move(word));
      return;
    }
    const bool appends = token.text[length - 2] == '+';
    variables_.AssignText(token.text.substr(0, length - (appends ? 2 : 1)),
                          variables_.Text(std::string_view(token.text).substr(length)), appends);
  }

  // Adds a command, or what it runs: a sourced file, "eval", "bash -c".
  void Finish(ShellCommand command, int depth) {
    const std::string& program = command.words.front();
    if (depth < kMaxDepth && (program == "source" || program == ".") && command.words.size() > 1) {
      return ReadSourced(command, depth);
    }
    if (IsOneOf(program, {"echo", "printf"})) return;
    std::string text;
    if (program == "eval") {
      for (const std::string& word : std::span(command.words).subspan(1)) text += word + " ";
    } else {
      // A command in one word, as for "bash -c" or srun.
      const auto is_command = [](const std::string& word) {
        return word.find(".py ") != word.npos || word.find("torchrun ") != word.npos;
      };
      const auto found = std::ranges::find_if(command.words, is_command);
      if (found != command.words.end()) text = *found;
    }
    if (text.empty() || depth >= kMaxDepth) {
      script_.commands.push_back(std::move(command));
    } else {
      ReadText(text, depth + 1, command.line);
    }
  }

  void ReadSourced(const ShellCommand& command, int depth) {
    const std::string& path = command.words[1];
    const auto text = UnresolvedIn(path).empty()
                          ? open_file_(path)
                          : absl::NotFoundError("its name depends on " + UnresolvedIn(path));
    if (text.ok()) return ReadText(*text, depth + 1);
    Note(command.line,
         fmt::format("{} is not read: {}", Shown(path), std::string(text.status().message())));
  }

  using Truth = std::optional<bool>;

  std::string file_;
  ShellVariables variables_;
  std::size_t read_bytes_ = 0;
  int nesting_ = 0;
  const OpenFile& open_file_;
  ShellScript script_;
};

}  // namespace

ShellScript ReadShellScript(std::string_view text, std::string_view file,
                            const std::map<std::string, std::string>& stated,
                            const OpenFile& open_file) {
  return ScriptReader(file, stated, open_file).Read(text);
}

}  // namespace meshwright
