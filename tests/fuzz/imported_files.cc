#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/input/input_files.h"
#include "cli/input/json_member.h"
#include "cli/input/json_text.h"
#include "meshwright/v1/service.pb.h"
#include "proto/json/json_tree.h"
#include "search_space/import/hugging_face.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"
#include "server/tuner/import/import.h"
#include "server/tuner/import/import_request.h"
#include "server/tuner/import/job_source.h"
#include "server/tuner/import/text/shell_arithmetic.h"
#include "server/tuner/import/text/shell_condition.h"
#include "server/tuner/import/text/yaml_json.h"
#include "tests/fuzz/targets.h"

namespace meshwright {

BrokenLaw HuggingFaceLaw(std::string_view input) {
  LooksLikeHuggingFaceConfig(input);
  const auto model = ImportHuggingFaceConfig(input, "model");
  if (!model.ok()) return ErrorLaw(model.status());
  for (const std::string& note : model->notes) {
    if (auto broken = TextLaw(note)) return broken;
  }
  return ViolationsLaw(Validate(model->model, "model"));
}

BrokenLaw LaunchFileLaw(std::string_view input) {
  for (const char* file : {"run.sh", "job.yaml", "job.toml", "job.json"}) {
    const auto job =
        ImportJob({.file = file,
                   .text = std::string(input),
                   .open_file = [](const std::string& path) -> absl::StatusOr<std::string> {
                     return absl::NotFoundError("no file " + path.substr(0, 100));
                   },
                   .variables = {{"NNODES", "4"}, {"GPUS_PER_NODE", "8"}},
                   .devices = 32});
    if (!job.ok()) {
      if (auto broken = ErrorLaw(job.status())) return fmt::format("{}: {}", file, *broken);
      continue;
    }
    for (const std::string& note : job->notes) {
      if (auto broken = TextLaw(note)) return fmt::format("{}: {}", file, *broken);
    }
    for (const UnusedKey& unused : job->unused) {
      if (auto broken = First({TextLaw(unused.key), TextLaw(unused.reason)})) return broken;
    }
    if (auto broken = ViolationsLaw(Validate(job->plan, "plan"))) return broken;
    if (!job->model.has_value()) continue;
    if (auto broken = ViolationsLaw(Validate(*job->model, "model"))) return broken;
  }
  return std::nullopt;
}

BrokenLaw YamlLaw(std::string_view input) {
  const auto json = YamlAsJson(input);
  if (!json.ok()) return ErrorLaw(json.status());
  HasKeyOfFramework(*json);
  // JSON has no numbers as large as YAML's, but every text of them is one.
  return Holds(ReadJsonTree(*json).ok(), "YAML that is read is JSON");
}

BrokenLaw InputFileLaw(std::string_view input) {
  for (const char* file : {"in.json", "in.yaml", "in"}) {
    const auto json = AsJson(std::string(input), file);
    if (auto broken = ErrorLaw(json.status())) return broken;
    OwnJson(std::string(input), file, *v1::EvaluateCase::descriptor());
  }
  const auto member = FindJsonMember(input, "model");
  if (member.has_value() && (member->data() < input.data() ||
                             member->data() + member->size() > input.data() + input.size())) {
    return "a member is a part of its object";
  }
  const Parsed<v1::EvaluateCase> parsed = ParseCase(input);
  return First({ViolationsLaw(parsed.violations), ErrorLaw(parsed.model)});
}

BrokenLaw ShellWordsLaw(std::string_view input) {
  ShellArithmetic(input);
  // A pattern and a text, with a line between them.
  const std::size_t end = std::min(input.find('\n'), input.size());
  const std::string pattern(input.substr(0, end));
  const std::string text(input.substr(std::min(end + 1, input.size())));
  MatchesPattern(text, pattern);
  MatchesPattern(pattern, text);
  return std::nullopt;
}

}  // namespace meshwright
