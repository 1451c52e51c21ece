#include "server/plugins/host/call_filter.h"

#include <seccomp.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>
#include <vector>

namespace meshwright {
namespace {

constexpr unsigned kTypeBits = 0xf;  // the type in socket(2)'s argument; other bits are flags

using Conditions = std::vector<scmp_arg_cmp>;

// The conditions are written out because libseccomp's macros for them are C.
bool Forbid(scmp_filter_ctx filter, int call, unsigned error, const Conditions& conditions = {}) {
  return seccomp_rule_add_array(filter, SCMP_ACT_ERRNO(error), call,
                                static_cast<unsigned>(conditions.size()), conditions.data()) == 0;
}

bool AddRules(scmp_filter_ctx filter) {
  const scmp_arg_cmp other_family = {0, SCMP_CMP_NE, AF_UNIX, 0};
  bool is_done = Forbid(filter, SCMP_SYS(connect), EACCES) &&
                 Forbid(filter, SCMP_SYS(socket), EAFNOSUPPORT, {other_family}) &&
                 Forbid(filter, SCMP_SYS(io_uring_setup), ENOSYS) &&
                 Forbid(filter, SCMP_SYS(add_key), EPERM) &&
                 Forbid(filter, SCMP_SYS(request_key), EPERM) &&
                 Forbid(filter, SCMP_SYS(keyctl), EPERM);
  // SOCK_RAW means a datagram there too. The kernel reads half of a register and a filter reads all
  // of it: a condition on the family could be evaded, the masked one cannot.
  for (const unsigned type : {SOCK_DGRAM, SOCK_RAW}) {
    const scmp_arg_cmp of_type = {1, SCMP_CMP_MASKED_EQ, kTypeBits, type};
    for (const int call : {SCMP_SYS(socket), SCMP_SYS(socketpair)}) {
      is_done = is_done && Forbid(filter, call, EACCES, {of_type});
    }
  }
  return is_done;
}

}  // namespace

bool ForbidConnections() {
  const std::unique_ptr<void, void (*)(scmp_filter_ctx)> filter(seccomp_init(SCMP_ACT_ALLOW),
                                                                seccomp_release);
  return filter != nullptr && AddRules(filter.get()) && seccomp_load(filter.get()) == 0;
}

}  // namespace meshwright
