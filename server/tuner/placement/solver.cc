#include "server/tuner/placement/solver.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>
#include <vector>

#include "search_space/base/file_text.h"
#include "search_space/base/status.h"
#include "server/process/command.h"
#include "server/tuner/placement/linear_text.h"

namespace meshwright {
namespace {

// The time that a solver may take beyond its own limit, in which it reads and writes files.
constexpr Seconds kGrace = Seconds(30);
constexpr Seconds kVersionLimit = Seconds(30);

std::string_view PackageOf(SolverKind kind) {
  return kind == SolverKind::kCbc ? "coinor-cbc" : "glpk-utils";
}

// A folder for one program, which is removed with all that is in it.
class ProgramFolder {
 public:
  static absl::StatusOr<ProgramFolder> Make() {
    std::error_code error;
    std::string path = std::filesystem::temp_directory_path(error) / "meshwright-place-XXXXXX";
    if (error || mkdtemp(path.data()) == nullptr) {
      return absl::UnavailableError("no temporary folder can be made for the solver: " + path);
    }
    return ProgramFolder(std::move(path));
  }
  ProgramFolder(ProgramFolder&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  ProgramFolder& operator=(ProgramFolder&&) = delete;
  ~ProgramFolder() {
    std::error_code error;
    if (!path_.empty()) std::filesystem::remove_all(path_, error);
  }

  [[nodiscard]] std::string File(std::string_view name) const {
    return fmt::format("{}/{}", path_, name);
  }

 private:
  explicit ProgramFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

std::vector<std::string> CommandOf(SolverKind kind, const ProgramFolder& folder, Seconds limit) {
  const std::string seconds = fmt::format("{}", std::max(1L, std::lround(limit.count())));
  if (kind == SolverKind::kCbc) {
    return {"cbc",
            folder.File("p.lp"),
            "-timeMode",
            "elapsed",
            "-seconds",
            seconds,
            "-ratioGap",
            "0",
            "-allowableGap",
            "0",
            "-increment",
            "1e-9",
            "-solve",
            "-solution",
            folder.File("solution")};
  }
  return {"glpsol", "--lp",    folder.File("p.lp"),    "--tmlim",
          seconds,  "--write", folder.File("solution")};
}

absl::StatusOr<SolverReply> Run(SolverKind kind, const LinearText& program, Seconds limit) {
  ASSIGN_OR_RETURN(const ProgramFolder folder, ProgramFolder::Make());
  std::ofstream written(folder.File("p.lp"), std::ios::binary);
  written << program.text;
  written.close();
  if (!written) return absl::UnavailableError("cannot write " + folder.File("p.lp"));
  const auto done = RunCommand(CommandOf(kind, folder, limit), "", limit + kGrace);
  if (absl::IsDeadlineExceeded(done.status())) return SolverReply();
  if (!done.ok()) return done.status();
  std::ifstream file(folder.File("solution"), std::ios::binary);
  const std::string solution = RestOf(file);
  if (solution.empty()) {
    const std::string& told = done->err.empty() ? done->out : done->err;
    return absl::InternalError(fmt::format("{} ended with exit code {} and wrote no solution: {}",
                                           Word(kind), done->exit_code, told.substr(0, 500)));
  }
  // GLPK says so on its output if the linear relaxation is infeasible.
  if (kind == SolverKind::kGlpk && done->out.find("NO PRIMAL FEASIBLE") != std::string::npos) {
    return SolverReply{.end = SolverEnd::kInfeasible};
  }
  return kind == SolverKind::kCbc ? ReadCbcSolution(solution, program)
                                  : ReadGlpkSolution(solution, program);
}

const ProgramOption& OptionOf(const IntegerProgram& program, const LinearText::Variable& variable) {
  const ProgramJob& job = program.jobs[static_cast<std::size_t>(variable.job)];
  return *std::ranges::find(job.options, variable.option, &ProgramOption::option);
}

// Returns the assignment of the chosen variables, or nullopt if they break a limit of the program.
std::optional<ProgramSolution> AssignmentOf(const IntegerProgram& program, const LinearText& text,
                                            const SolverReply& reply) {
  ProgramSolution solution = {.assignment = Assignment(program.jobs.size())};
  std::vector<int> free = program.node_counts;
  for (const std::size_t i : reply.chosen) {
    const LinearText::Variable& variable = text.variables[i];
    const ProgramOption& option = OptionOf(program, variable);
    std::optional<int>& chosen = (*solution.assignment)[static_cast<std::size_t>(variable.job)];
    if (chosen.has_value()) return std::nullopt;
    chosen = option.option;
    solution.value += option.value;
    for (const PoolUse& use : option.uses) {
      int& left = free[static_cast<std::size_t>(use.pool)];
      left -= use.node_count;
      if (left < 0) return std::nullopt;
    }
  }
  for (std::size_t j = 0; j < program.jobs.size(); ++j) {
    if (program.jobs[j].is_required && !(*solution.assignment)[j]) return std::nullopt;
  }
  return solution;
}

bool LacksRequired(const IntegerProgram& program) {
  return std::ranges::any_of(
      program.jobs, [](const ProgramJob& job) { return job.is_required && job.options.empty(); });
}

absl::StatusOr<ProgramSolution> SolveByProcess(SolverKind kind, const IntegerProgram& stated,
                                               Seconds limit) {
  const IntegerProgram program = WithoutDominated(stated);
  if (LacksRequired(program)) return ProgramSolution{.is_proven = true};
  const LinearText text = LinearTextOf(program);
  if (text.variables.empty()) {
    return ProgramSolution{.assignment = Assignment(program.jobs.size()), .is_proven = true};
  }
  ASSIGN_OR_RETURN(const SolverReply reply, Run(kind, text, limit));
  if (reply.end == SolverEnd::kInfeasible) return ProgramSolution{.is_proven = true};
  std::optional<ProgramSolution> solution = AssignmentOf(program, text, reply);
  if (reply.end == SolverEnd::kOptimal) {
    if (!solution.has_value()) {
      return absl::InternalError(
          fmt::format("{} gave an assignment that breaks a limit of the program", Word(kind)));
    }
    solution->bound = solution->value;
    solution->is_proven = true;
    return *std::move(solution);
  }
  if (!solution.has_value()) solution.emplace();
  solution->bound = RelaxedBound(program);
  return *std::move(solution);
}

}  // namespace

std::optional<std::string> SolverVersion(SolverKind kind) {
  if (kind == SolverKind::kExact) return "branch and bound of this program";
  const bool is_cbc = kind == SolverKind::kCbc;
  const auto told = RunCommand(is_cbc ? std::vector<std::string>{"cbc", "-quit"}
                                      : std::vector<std::string>{"glpsol", "--version"},
                               "", kVersionLimit);
  if (!told.ok()) return std::nullopt;
  std::istringstream lines(told->out);
  for (std::string line; std::getline(lines, line);) {
    const std::string_view lead = is_cbc ? "Version: " : "GLPSOL--";
    if (!line.starts_with(lead)) continue;
    std::string version = line.substr(lead.size());
    version.erase(version.find_last_not_of(' ') + 1);
    return is_cbc ? "CBC " + version : version;
  }
  return std::string(Word(kind));
}

std::optional<SolverKind> InstalledSolver() {
  for (const SolverKind kind : {SolverKind::kCbc, SolverKind::kGlpk}) {
    if (SolverVersion(kind).has_value()) return kind;
  }
  return std::nullopt;
}

absl::StatusOr<SolverKind> ChooseSolver(std::optional<SolverKind> wanted, int job_count) {
  const auto refuse = [](const std::string& text) {
    return WithReason(absl::FailedPreconditionError(text), "NO_SOLVER");
  };
  if (wanted == SolverKind::kExact || (!wanted.has_value() && job_count <= kMaxExactJobs)) {
    if (job_count <= kMaxExactJobs) return SolverKind::kExact;
    return refuse(
        fmt::format("{} jobs; the exact search places at most {}, so use a solver: "
                    "install Debian's package coinor-cbc or glpk-utils",
                    job_count, kMaxExactJobs));
  }
  if (wanted.has_value()) {
    if (SolverVersion(*wanted).has_value()) return *wanted;
    return refuse(fmt::format("solver {} is not installed; install Debian's package {}",
                              Word(*wanted), PackageOf(*wanted)));
  }
  if (const auto installed = InstalledSolver()) return *installed;
  return refuse(
      fmt::format("{} jobs need a solver, because the exact search places at most {}, "
                  "and none is installed; install Debian's package coinor-cbc or "
                  "glpk-utils",
                  job_count, kMaxExactJobs));
}

ProgramSolver MakeSolver(SolverKind kind, const SolverLimits& limits) {
  return [kind, limits](const IntegerProgram& program) -> absl::StatusOr<ProgramSolution> {
    if (kind == SolverKind::kExact) return SolveExactly(program, limits.node_count);
    return SolveByProcess(kind, program, limits.seconds);
  };
}

}  // namespace meshwright
