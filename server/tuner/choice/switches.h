#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "search_space/spec/workload.h"
#include "search_space/spec/workload_settings.h"
#include "server/tuner/question/problem.h"

namespace meshwright {

// A setting of a framework that is off by its profile, and with which no plan is slower by the
// model.
struct Switch {
  std::string_view frameworks = {};  // names of profiles, separated by spaces
  std::string_view field = {};       // of kWorkloadSettings
  std::string_view value = {};
  std::string_view flag = {};  // the framework's name of it
  // Ids of the chips on which published runs had it, separated by spaces.
  std::string_view chips = {};
  bool changes_numerics = false;
  std::string_view source = {};  // where the flag and these runs are published
};

// Returns the table of all switches.
std::span<const Switch> Switches();

// Returns the switches of the problem's framework that have another value in the problem and that
// `stated`, the workload as the user stated it, leaves open.
std::vector<const Switch*> OpenSwitches(const Problem& problem, const WorkloadRequest& stated);

// Returns true if a search may turn the switch on by itself: published runs on this chip had it,
// and it leaves the numbers that are computed as they are.
bool MayTurnOn(const Switch& row, std::string_view chip);

// Returns the problem with these values of settings of its workload. A field that is not in the
// table of switches is a bug.
Problem WithSettings(Problem problem, std::span<const WorkloadSetting> settings);

// Returns the switches as settings, in their order.
std::vector<WorkloadSetting> SettingsOf(std::span<const Switch* const> switches);

}  // namespace meshwright
