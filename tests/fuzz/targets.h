#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/laws.h"

namespace meshwright {

// A parser of input from outside, with the laws that hold for whatever it is given.
struct FuzzTarget {
  std::string_view name = {};  // also of the folder of its inputs: tests/fuzz/corpus/<name>
  BrokenLaw (*broken_law)(std::string_view input) = nullptr;
  // Further inputs that are in the repository for another reason: folders and ends of names
  // ("tests/workloads/logs .log"), separated by commas.
  std::string_view also = {};
};

// Returns the targets, sorted by name.
std::span<const FuzzTarget> FuzzTargets();

const FuzzTarget* FindFuzzTarget(std::string_view name);

// Returns the inputs that a campaign begins with, and that every build of the tests tries: the
// paths of the corpus and of the other files, sorted.
std::vector<std::filesystem::path> SeedsOf(const FuzzTarget& target);

// Texts of the model: keys of plans, tokens of pages, words of a user's.
BrokenLaw CleanTextLaw(std::string_view input);
BrokenLaw PageTokenLaw(std::string_view input);
BrokenLaw PlanKeyLaw(std::string_view input);
BrokenLaw SecretsLaw(std::string_view input);

// Messages of the wire, as JSON, as bytes and as the parts of an HTTP request.
BrokenLaw CaseLaw(std::string_view input);
BrokenLaw HttpTextsLaw(std::string_view input);
BrokenLaw JobReportLaw(std::string_view input);
BrokenLaw JsonTextLaw(std::string_view input);
BrokenLaw QueryLaw(std::string_view input);
BrokenLaw TuneRequestLaw(std::string_view input);
BrokenLaw WireBytesLaw(std::string_view input);

// Launch scripts, configurations and models of others.
BrokenLaw HuggingFaceLaw(std::string_view input);
BrokenLaw InputFileLaw(std::string_view input);
BrokenLaw LaunchFileLaw(std::string_view input);
BrokenLaw ShellWordsLaw(std::string_view input);
BrokenLaw YamlLaw(std::string_view input);

// Facts: chips, measurements, clusters as tools describe them.
BrokenLaw ChipFileLaw(std::string_view input);
BrokenLaw HistoryLineLaw(std::string_view input);
BrokenLaw KubernetesNodesLaw(std::string_view input);
BrokenLaw LocalDevicesLaw(std::string_view input);
BrokenLaw MicrobenchmarksLaw(std::string_view input);
BrokenLaw SlurmNodesLaw(std::string_view input);
BrokenLaw TrainingLogLaw(std::string_view input);

// Texts of engines of jobs, of solvers and of the server's operator.
BrokenLaw CallersLaw(std::string_view input);
BrokenLaw HarnessFilesLaw(std::string_view input);
BrokenLaw JobWordsLaw(std::string_view input);
BrokenLaw KubernetesAnswersLaw(std::string_view input);
BrokenLaw KubernetesTemplateLaw(std::string_view input);
BrokenLaw ModelManifestLaw(std::string_view input);
BrokenLaw SlurmAnswersLaw(std::string_view input);
BrokenLaw SolverFilesLaw(std::string_view input);

}  // namespace meshwright
