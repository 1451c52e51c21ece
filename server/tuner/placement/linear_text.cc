#include "server/tuner/placement/linear_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <map>
#include <sstream>

#include "search_space/base/clean_text.h"

namespace meshwright {
namespace {

constexpr double kScaledSum = 1e6;

double GreatestSum(const IntegerProgram& program) {
  double sum = 0;
  for (const ProgramJob& job : program.jobs) {
    double greatest = 0;
    for (const ProgramOption& option : job.options) greatest = std::max(greatest, option.value);
    sum += greatest;
  }
  return sum > 0 ? sum : 1;
}

// A row of the text has one term a line, because solvers limit the length of lines.
std::string Term(double factor, const std::string& name) {
  return fmt::format(" + {:.17g} {}\n", factor, name);
}

// The rows of the text, without those that have no variable.
class Writer {
 public:
  explicit Writer(const IntegerProgram& program) : program_(program) {}

  LinearText Write() {
    const double scale = kScaledSum / GreatestSum(program_);
    std::string floor_row;
    for (std::size_t j = 0; j < program_.jobs.size(); ++j) {
      std::string job_row;
      for (const ProgramOption& option : program_.jobs[j].options) {
        const std::string name = fmt::format("x{}o{}", j, option.option);
        made_.variables.push_back(
            {.name = name, .job = static_cast<int>(j), .option = option.option});
        objective_ += Term(scale * option.value, name);
        binaries_ += fmt::format(" {}\n", name);
        job_row += Term(1, name);
        for (const PoolUse& use : option.uses) pool_rows_[use.pool] += Term(use.node_count, name);
        if (program_.floor.value_or(0) > 0 && option.floor_value > 0) {
          floor_row += Term(option.floor_value / *program_.floor, name);
        }
      }
      Add(fmt::format("job{}", j), job_row, program_.jobs[j].is_required ? "= 1" : "<= 1");
    }
    for (const auto& [pool, row] : pool_rows_) {
      const int nodes = program_.node_counts[static_cast<std::size_t>(pool)];
      Add(fmt::format("pool{}", pool), row, fmt::format("<= {}", nodes));
    }
    Add("floor", floor_row, ">= 1");
    made_.text = fmt::format("Maximize\n value:\n{}Subject To\n{}Binary\n{}End\n", objective_,
                             rows_, binaries_);
    return std::move(made_);
  }

 private:
  void Add(const std::string& name, const std::string& row, const std::string& limit) {
    if (!row.empty()) rows_ += fmt::format(" {}:\n{} {}\n", name, row, limit);
  }

  const IntegerProgram& program_;
  LinearText made_;
  std::string objective_;
  std::string rows_;
  std::string binaries_;
  std::map<int, std::string> pool_rows_;
};

std::optional<double> NumberOf(const std::string& word) {
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  const bool is_number = error == std::errc() && end == word.data() + word.size();
  return is_number ? std::optional(value) : std::nullopt;
}

absl::Status Unreadable(std::string_view solver, const std::string& line) {
  return absl::InternalError(
      fmt::format("{} wrote a solution that cannot be read: {}", solver, QuotedText(line)));
}

std::vector<std::string> WordsOf(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

SolverEnd GlpkEnd(std::string_view status) {
  if (status == "n") return SolverEnd::kInfeasible;
  return status == "o" ? SolverEnd::kOptimal : SolverEnd::kStopped;
}

}  // namespace

LinearText LinearTextOf(const IntegerProgram& program) { return Writer(program).Write(); }

absl::StatusOr<SolverReply> ReadCbcSolution(std::string_view text, const LinearText& program) {
  std::map<std::string, std::size_t> indices;
  for (std::size_t i = 0; i < program.variables.size(); ++i) {
    indices[program.variables[i].name] = i;
  }
  std::istringstream lines{std::string(text)};
  std::string line;
  std::getline(lines, line);
  SolverReply reply;
  if (line.starts_with("Infeasible") || line.starts_with("Integer infeasible")) {
    reply.end = SolverEnd::kInfeasible;
    return reply;
  }
  if (line.starts_with("Optimal")) {
    reply.end = SolverEnd::kOptimal;
  } else if (!line.starts_with("Stopped on ")) {
    return Unreadable("cbc", line);
  } else if (line.find("no integer solution") != std::string::npos) {
    return reply;
  }
  while (std::getline(lines, line)) {
    const std::vector<std::string> words = WordsOf(line);
    if (words.size() != 4) return Unreadable("cbc", line);
    const auto found = indices.find(words[1]);
    const auto value = NumberOf(words[2]);
    if (found == indices.end() || !value.has_value()) return Unreadable("cbc", line);
    if (std::round(*value) == 1) reply.chosen.push_back(found->second);
  }
  return reply;
}

absl::StatusOr<SolverReply> ReadGlpkSolution(std::string_view text, const LinearText& program) {
  std::istringstream lines{std::string(text)};
  SolverReply reply;
  std::size_t column_count = 0;
  bool has_end = false;
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> words = WordsOf(line);
    if (words.size() == 6 && words[0] == "s") {
      reply.end = GlpkEnd(words[4]);
      has_end = true;
    }
    if (words.size() != 3 || words[0] != "j") continue;
    const auto value = NumberOf(words[2]);
    if (!value.has_value()) return Unreadable("glpsol", line);
    if (std::round(*value) == 1) reply.chosen.push_back(column_count);
    ++column_count;
  }
  if (!has_end || column_count != program.variables.size()) {
    return Unreadable("glpsol", has_end ? "the number of its columns" : "no status");
  }
  if (reply.end == SolverEnd::kInfeasible) reply.chosen.clear();
  return reply;
}

}  // namespace meshwright
