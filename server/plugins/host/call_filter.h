#pragma once

namespace meshwright {

// From now on this process, which can gain no rights (PR_SET_NO_NEW_PRIVS), and its children reach
// no socket that they did not make: connect(2) fails with EACCES, as do datagram sockets, which
// reach others without it, and sockets of any family but Unix with EAFNOSUPPORT. Calls that
// would go round that (io_uring, those of other architectures) and the kernel's keys, which are the
// user's, are forbidden as well. Children may be spoken to through pipes and socketpair(2).
// False: the kernel does not allow such filters, and nothing is forbidden.
bool ForbidConnections();

}  // namespace meshwright
