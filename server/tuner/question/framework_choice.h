#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "estimator/frameworks/framework_library.h"
#include "search_space/base/status.h"
#include "search_space/spec/framework_profile.h"
#include "search_space/spec/model.h"
#include "search_space/spec/workload.h"
#include "server/tuner/question/knowledge.h"

namespace meshwright {

// The first release of Megatron-Core that builds the parts of PartsOfLaterMegatron (its CHANGELOG:
// "Enable SWA mixing with attention", "Enable bias in expert MLP", "Fix sink attention TP").
inline constexpr std::string_view kLaterMegatron = "0.15";

// A part of a model that not every release of a framework builds.
struct ModelPart {
  std::string_view field = {};
  std::string_view what = {};  // for people
};

// Returns the parts of a model that Megatron-Core builds from kLaterMegatron on only.
std::vector<ModelPart> PartsOfLaterMegatron(const ModelSpec& model);

// Returns the profile of the framework and the version that the workload names; without a version,
// one that builds the model, if there is one.
FoundFramework FindFramework(const WorkloadRequest& workload, const ModelSpec& model,
                             const Knowledge& knowledge);

// Returns the description of a name that no profile has. What runs another framework has an export
// of that one's plans.
std::string UnknownFramework(const std::string& name, const FrameworkLibrary& frameworks);

// Returns why a version of a built-in framework is not known, with those that are: the versions of
// its profiles, and those with which a rule of legality begins or ends. "" if it is known, if the
// framework's versions are not told apart, or if there is no such framework.
std::string WhyUnknownVersion(std::string_view framework, std::string_view version);

// Replaces the profile's facts by the workload's own. Returns violations for those that are
// invalid.
std::vector<FieldViolation> ApplyFacts(const WorkloadRequest& workload, FrameworkProfile& profile);

// Returns why a profile was taken for a question that states no version.
std::string VersionSource(const FrameworkProfile& profile);

// Names the facts that the workload states instead of the profile's.
std::string FactsNote(const WorkloadRequest& workload, const FrameworkProfile& profile);

// Returns the profile as the source of a default: "framework profile megatron-core 0.14".
std::string ProfileName(const FrameworkProfile& profile);

// Says what an estimate rests on for a cluster on which no run was checked.
std::string Extrapolation(const FrameworkProfile& profile);

// Returns the version that the question states, by the name that its profile has for it; that of
// the profile if it states none.
std::string ResolveVersion(const WorkloadRequest& stated, const FrameworkEntry& framework);

}  // namespace meshwright
