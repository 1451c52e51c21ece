#pragma once

#include <string>
#include <vector>

namespace meshwright {

// The part of the machine's files that a process and its children still have.
struct FileView {
  bool is_read_only = false;     // except for one folder
  bool has_own_devices = false;  // /dev holds only nodes such as null that are no real devices
};

// Gives this process a view of its own of the files: its own processes under /proc, few devices,
// and nothing that can be written but `folder`. It needs the rights over mount namespaces. What the
// kernel does not allow stays as it was, and so does /dev if the folder or a path of `command` lies
// below it.
FileView EnterFileView(const std::string& folder, const std::vector<std::string>& command);

}  // namespace meshwright
