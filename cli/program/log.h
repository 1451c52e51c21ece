#pragma once

namespace meshwright {

// Sends the lines that libraries log to stderr, in the form of meshwrightd's log: stdout is for
// answers. The library's own choice would be stdout.
void LogToStderr();

}  // namespace meshwright
