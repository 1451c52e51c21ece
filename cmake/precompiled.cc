// CMake attaches the headers that most libraries share to this file: see meshwright.cmake beside it.
