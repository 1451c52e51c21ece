#pragma once

namespace CLI {
class App;
}

namespace meshwright {

// Groups the commands by topic and gives every command its help: arguments, flags by topic,
// examples, and the flags of all commands. To be called when all commands have been added.
void DescribeCommands(CLI::App& root);

}  // namespace meshwright
