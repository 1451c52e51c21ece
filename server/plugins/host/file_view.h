#pragma once

#include <string>
#include <vector>

namespace meshwright {

// What of the machine's files a process and its children still have.
struct FileView {
  bool is_read_only = false;     // but for one folder
  bool has_own_devices = false;  // /dev has those without a machine behind them, as null, alone
};

// Gives the process, which has the rights over namespaces of mounts, a view of its own of the
// files: its own processes under /proc, few devices, and nothing that can be written but `folder`.
// What the kernel does not allow stays as it was, and so does /dev where the folder or a path of
// `command` lies below it.
FileView EnterFileView(const std::string& folder, const std::vector<std::string>& command);

}  // namespace meshwright
