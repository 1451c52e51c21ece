#include "bench/questions.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "pruner/pruner.h"
#include "search_space/import/hugging_face.h"
#include "search_space/space/space.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/problem.h"

namespace meshwright {
namespace {

std::string ReadSource(const std::filesystem::path& path) {
  std::ifstream file(std::filesystem::path(MESHWRIGHT_SOURCE) / path);
  return {std::istreambuf_iterator<char>(file), {}};
}

absl::StatusOr<nlohmann::json> RowOf(std::string_view question) {
  for (const nlohmann::json& row : nlohmann::json::parse(ReadSource("bench/questions.json"))) {
    if (row.at("name") == question) return row;
  }
  return absl::NotFoundError(std::string(question) + " is not in bench/questions.json");
}

Question QuestionOf(const nlohmann::json& row) {
  const std::filesystem::path config = row.at("model").get<std::string>();
  const std::string name = config.parent_path().filename();
  return {.model = ImportHuggingFaceConfig(ReadSource(config), name).value().model,
          .workload = {.sequence_length = row.at("sequence_length"),
                       .global_batch_size = row.at("global_batch_size"),
                       .framework_name = row.at("framework")},
          .cluster = {.name = "bench",
                      .pools = {{.name = "a",
                                 .chip = row.at("chip"),
                                 .node_count = row.at("node_count"),
                                 .devices_per_node = row.at("devices_per_node")}}}};
}

}  // namespace

// A benchmark cannot report an error to anybody, so an error ends the program.
Problem ProblemOf(std::string_view question) {
  static const Knowledge knowledge = LoadKnowledge("").value();
  return ResolveProblem(QuestionOf(RowOf(question).value()), knowledge).value();
}

std::optional<ParallelPlan> DrawPlan(const Problem& problem, const SearchSpace& space,
                                     std::mt19937& random) {
  const Pruning pruning;
  ParallelPlan plan = space.Root();
  for (int depth = 0; depth < kDimensionCount; ++depth) {
    const auto dimension = static_cast<Dimension>(depth);
    const std::vector<int> values = space.Values(dimension, plan);
    if (values.empty()) return std::nullopt;
    space.Set(dimension, values[random() % values.size()], plan);
    const EstimatorProblem view = ToEstimatorProblem(problem);
    if (pruning.IsCutBySizes({.problem = view, .space = space}, plan, depth + 1)) {
      return std::nullopt;
    }
  }
  return plan;
}

std::vector<ParallelPlan> DrawPlans(const Problem& problem, std::size_t count) {
  const SearchSpace space = SpaceOf(problem);
  std::mt19937 random(1);
  std::vector<ParallelPlan> plans;
  while (plans.size() < count) {
    if (auto plan = DrawPlan(problem, space, random)) plans.push_back(*std::move(plan));
  }
  std::sort(plans.begin(), plans.end());
  return plans;
}

}  // namespace meshwright
