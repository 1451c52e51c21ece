#pragma once

namespace meshwright {

// Lets this process open as many files as the system allows it, instead of the 1,024 with which
// programs begin for the sake of select(2). Returns how many that are.
int RaiseFileLimit();

}  // namespace meshwright
