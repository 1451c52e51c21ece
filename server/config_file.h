#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace meshwright {

// Lets an app with the flags of DeclareFlags take their values also from the TOML file that
// --config names. The command line wins. The app's parsing adds a sentence to `mistakes`, which
// must outlive it, for each line, key and value of the file that is wrong.
void AddConfigFile(CLI::App& app, std::vector<std::string>& mistakes);

// Returns a configuration file with every key of the app, its meaning and its default.
std::string ConfigFileOf(const CLI::App& app);

}  // namespace meshwright
