#pragma once

#include <string_view>

namespace meshwright {

// Tells the service manager about this process: "READY=1", "STOPPING=1" (sd_notify(3)). Does
// nothing unless the process was started by one that asks for it ($NOTIFY_SOCKET). The protocol is
// one datagram and stable, so that no library is needed for it.
void NotifySystemd(std::string_view state);

}  // namespace meshwright
