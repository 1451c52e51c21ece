#include "cli/place/placement_files.h"

#include <fmt/format.h>

#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "cli/detect/detect_cluster.h"
#include "cli/input/cluster_flags.h"
#include "cli/input/input_files.h"
#include "cli/input/question_flags.h"
#include "cli/input/read_file.h"
#include "meshwright/v1/placement.pb.h"
#include "meshwright/v1/service.pb.h"
#include "proto/json/json.h"
#include "search_space/base/shown_value.h"
#include "search_space/base/status.h"

namespace meshwright {
namespace {

using Json = nlohmann::json;

void Join(std::vector<FieldViolation>&& from, std::vector<FieldViolation>& to) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

// Returns a path that a file states, from the file's folder.
std::string PathFrom(const std::string& file, const std::string& path) {
  if (file == "-") return path;
  return (std::filesystem::path(file).parent_path() / path).lexically_normal();
}

// Returns the list in a file: its value of the key, or the whole text.
std::optional<Json> ReadList(const std::string& key, const std::string& path, int most,
                             std::vector<FieldViolation>& violations) {
  const auto text = ReadJsonFor(key, path, violations);
  if (!text.has_value()) return std::nullopt;
  Json list = Json::parse(*text, nullptr, false);
  if (list.is_discarded()) {  // the reader of messages says where the text is wrong
    v1::PlacementJob none;
    Join(ParseJson(*text, key, none), violations);
    return std::nullopt;
  }
  if (list.is_object()) {
    for (const auto& [name, value] : list.items()) {
      if (name == key) continue;
      violations.push_back({.field = fmt::format("{}.{}", key, name),
                            .description = fmt::format("unknown field; must be {}", key)});
    }
    list = list.contains(key) ? Json(std::move(list[key])) : Json();
  }
  if (!list.is_array() || list.empty() || list.size() > static_cast<std::size_t>(most)) {
    const std::string found =
        list.is_array() ? fmt::format("{} entries", list.size()) : ShownValue(list);
    violations.push_back(
        {.field = key, .description = fmt::format("{}; must be a list of 1 to {}", found, most)});
    return std::nullopt;
  }
  return list;
}

class FilesReader {
 public:
  PlacementFiles Read(const std::string& jobs, const std::string& clusters) {
    out_.names = {{.field = "jobs", .flag = "--jobs", .file = jobs},
                  {.field = "clusters", .flag = "--clusters", .file = clusters}};
    if (jobs == "-" && clusters == "-") {
      out_.stated.violations.push_back(
          {.field = "clusters", .description = "-; only one input can be stdin, and jobs is"});
      return std::move(out_);
    }
    if (auto list = ReadList("jobs", jobs, kMaxPlacedJobs, out_.stated.violations)) {
      for (Json& job : *list) AddJob(jobs, job);
    }
    if (auto list = ReadList("clusters", clusters, kMaxPlacedClusters, out_.stated.violations)) {
      for (const Json& cluster : *list) AddCluster(clusters, cluster);
    }
    return std::move(out_);
  }

 private:
  void AddJob(const std::string& file, Json& json) {
    const std::string prefix = fmt::format("jobs[{}]", out_.stated.jobs.size());
    StatedJob& stated = out_.stated.jobs.emplace_back();
    if (!json.is_object()) {
      stated.is_object = false;
      out_.stated.violations.push_back({.field = prefix, .description = NoObject(json)});
      return;
    }
    Json own = {};  // the parts of the question that stand in this file
    QuestionFlags files;
    for (const char* const part : {"model", "workload"}) {
      if (!json.contains(part)) continue;
      Json value = std::move(json[part]);
      json.erase(part);
      if (!value.is_string()) {
        own[part] = std::move(value);
        continue;
      }
      const std::string path = PathFrom(file, value.get<std::string>());
      (std::string_view(part) == "model" ? files.model : files.workload) = path;
      out_.names.push_back(
          {.field = fmt::format("{}.{}", prefix, part), .flag = "--jobs", .file = path});
    }
    Join(ParseJson(json.dump(), prefix, stated.job), out_.stated.violations);
    ReadQuestion(files, own, stated);
  }

  // Reads the model and the workload, each from a file or from the text of the job.
  void ReadQuestion(const QuestionFlags& files, const Json& own, StatedJob& stated) {
    if (!files.model.empty() || !files.workload.empty()) {
      Parsed<v1::TuneRequest> asked = ReadTuneRequest({.question = files}, "");
      // `tune` takes a cluster as well; the clusters have a file of their own.
      std::erase_if(asked.violations,
                    [](const FieldViolation& one) { return one.field.starts_with("cluster"); });
      stated.question = std::move(asked.message);
      stated.question.clear_cluster();
      Join(std::move(asked.violations), stated.question_violations);
      Join(std::move(asked.notes), out_.notes);
    }
    if (own.is_null()) return;
    Parsed<v1::EvaluateCase> stated_here = ParseCase(own.dump());
    if (own.contains("model")) {
      stated.question.mutable_model()->Swap(stated_here.message.mutable_model());
    }
    if (own.contains("workload")) {
      stated.question.mutable_workload()->Swap(stated_here.message.mutable_workload());
    }
    Join(std::move(stated_here.violations), stated.question_violations);
  }

  static void Join(std::vector<std::string>&& from, std::vector<std::string>& to) {
    to.insert(to.end(), from.begin(), from.end());
  }
  static void Join(std::vector<FieldViolation>&& from, std::vector<FieldViolation>& to) {
    meshwright::Join(std::move(from), to);
  }

  static std::string NoObject(const Json& json) { return ShownValue(json) + "; must be an object"; }

  void AddCluster(const std::string& file, const Json& json) {
    const std::string prefix = fmt::format("clusters[{}]", out_.stated.clusters.size());
    StatedCluster& stated = out_.stated.clusters.emplace_back();
    if (json.is_object()) {
      stated.violations = ParseJson(json.dump(), "cluster", stated.cluster);
      return;
    }
    if (!json.is_string()) {
      stated.is_readable = false;
      out_.stated.violations.push_back(
          {.field = prefix,
           .description = ShownValue(json) + "; must be an object, or the path of a file"});
      return;
    }
    ClusterFlags flags = {.source = json.get<std::string>()};
    if (!ParseClusterPlace(flags.source).has_value()) flags.source = PathFrom(file, flags.source);
    ReadCluster(flags, stated.cluster, stated.violations);
    out_.names.push_back({.field = prefix, .flag = "--clusters", .file = flags.source});
  }

  PlacementFiles out_;
};

}  // namespace

PlacementFiles ReadPlacementFiles(const std::string& jobs, const std::string& clusters) {
  return FilesReader().Read(jobs, clusters);
}

}  // namespace meshwright
