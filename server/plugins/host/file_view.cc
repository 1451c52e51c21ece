#include "server/plugins/host/file_view.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

namespace meshwright {
namespace {

bool Change(const char* path, std::uint64_t set, std::uint64_t clear, unsigned flags) {
  mount_attr attributes = {};
  attributes.attr_set = set;
  attributes.attr_clr = clear;
  return mount_setattr(AT_FDCWD, path, flags, &attributes, sizeof(attributes)) == 0;
}

// Nodes that are no real devices.
constexpr const char* kDevices[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random",
                                    "/dev/urandom"};
constexpr std::pair<const char*, const char*> kLinks[] = {{"/proc/self/fd", "/dev/fd"},
                                                          {"/proc/self/fd/0", "/dev/stdin"},
                                                          {"/proc/self/fd/1", "/dev/stdout"},
                                                          {"/proc/self/fd/2", "/dev/stderr"}};

bool Attach(int mount, const char* node) {
  const int file = open(node, O_CREAT | O_RDONLY | O_CLOEXEC, 0600);
  if (file < 0) return false;
  close(file);
  return move_mount(mount, "", AT_FDCWD, node, MOVE_MOUNT_F_EMPTY_PATH) == 0;
}

using Nodes = std::vector<std::pair<int, const char*>>;

// Takes nodes along from the machine's /dev: mounts of another user cannot open devices.
Nodes TakeNodes() {
  Nodes nodes;
  for (const char* device : kDevices) {
    const int node = open_tree(AT_FDCWD, device, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (node >= 0) nodes.emplace_back(node, device);
  }
  return nodes;
}

// Fills a new /dev, after which no other mount has devices.
bool FillDevices(const Nodes& nodes) {
  for (const auto& [mount, node] : nodes) {
    if (!Attach(mount, node)) return false;
  }
  for (const auto& [target, link] : kLinks) {
    if (symlink(target, link) != 0) return false;
  }
  if (!Change("/", MOUNT_ATTR_NODEV, 0, AT_RECURSIVE)) return false;
  return std::ranges::all_of(
      nodes, [](const auto& node) { return Change(node.second, 0, MOUNT_ATTR_NODEV, 0); });
}

// Replaces /dev by a new one. Returns false if it is still the machine's.
bool ReplaceDevices() {
  const Nodes nodes = TakeNodes();
  bool is_done = mount("tmpfs", "/dev", "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755,size=64k") == 0;
  if (is_done && !FillDevices(nodes)) {
    umount2("/dev", MNT_DETACH);
    is_done = false;
  }
  for (const auto& [mount, node] : nodes) close(mount);
  return is_done;
}

bool IsBelowDevices(const std::string& path) {
  std::error_code error;
  return path.starts_with("/") &&
         std::filesystem::weakly_canonical(path, error).string().starts_with("/dev/");
}

}  // namespace

FileView EnterFileView(const std::string& folder, const std::vector<std::string>& command) {
  FileView view;
  if (unshare(CLONE_NEWNS) != 0) return view;
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return view;
  if (mount(folder.c_str(), folder.c_str(), nullptr, MS_BIND, nullptr) != 0) return view;
  // Programs that look at /proc/self should see their own ids. This is not allowed everywhere, and
  // not needed.
  mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr);
  const bool hides = IsBelowDevices(folder) ||
                     std::ranges::any_of(command, IsBelowDevices);  // the command needs them
  view.has_own_devices = !hides && ReplaceDevices();
  view.is_read_only = Change("/", MOUNT_ATTR_RDONLY, 0, AT_RECURSIVE) &&
                      Change(folder.c_str(), 0, MOUNT_ATTR_RDONLY, 0);
  return view;
}

}  // namespace meshwright
