#pragma once

namespace meshwright {

// Cuts this process and its children off from all sockets that they did not make; the process must
// have PR_SET_NO_NEW_PRIVS. connect(2) fails with EACCES, as do datagram sockets, which reach
// others without it; sockets of any family but Unix fail with EAFNOSUPPORT. Calls that would evade
// this (io_uring, those of other architectures) and the kernel's keys, which are the user's, are
// forbidden too. Children can be reached through pipes and socketpair(2). Returns false if the
// kernel does not allow such filters; nothing is forbidden then.
bool ForbidConnections();

}  // namespace meshwright
