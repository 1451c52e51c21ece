# meshwright_slurm_cluster(NAME [ARGUMENT...]) adds a real Slurm on this machine, which starts before
# the first test that needs it and ends after the last; the arguments are those of
# scripts/slurm_up.sh behind the folder. Tests take its properties from MESHWRIGHT_SLURM_<NAME>.
# Tests of one cluster wait for each other; those of different clusters run side by side.
function(meshwright_slurm_cluster name)
  set(folder ${PROJECT_BINARY_DIR}/slurm/${name})
  add_test(NAME slurm_${name}_up COMMAND ${PROJECT_SOURCE_DIR}/scripts/slurm_up.sh ${folder} ${ARGN})
  add_test(NAME slurm_${name}_down COMMAND ${PROJECT_SOURCE_DIR}/scripts/slurm_down.sh ${folder})
  set_tests_properties(slurm_${name}_up PROPERTIES FIXTURES_SETUP slurm_${name} COST 2000)
  set_tests_properties(slurm_${name}_down PROPERTIES FIXTURES_CLEANUP slurm_${name})
  set(MESHWRIGHT_SLURM_${name}
      FIXTURES_REQUIRED slurm_${name} RESOURCE_LOCK slurm_${name} ENVIRONMENT
      SLURM_CONF=${folder}/slurm.conf PARENT_SCOPE)
endfunction()
