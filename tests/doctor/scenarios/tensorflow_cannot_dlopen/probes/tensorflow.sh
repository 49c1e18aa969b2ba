cat >&2 <<'END'
2026-11-21 10:00:00.000000: I tensorflow/core/platform/cpu_feature_guard.cc:210] This TensorFlow binary is optimized to use available CPU instructions, rebuild TensorFlow with the appropriate compiler flags.
W0000 00:00:1795266378.987829   21303 gpu_device.cc:2342] Cannot dlopen some GPU libraries. Please make sure the missing libraries mentioned above are installed properly if you would like to use GPU.
END
printf '\036gpuproof %s\n' '{"kind": "step", "name": "import tensorflow"}'
printf '\036gpuproof %s\n' '{"kind": "build", "version": "2.21.0", "cuda_build": true, "rocm_build": false, "cuda": "12.5", "cudnn": "9.3", "architectures": ["sm_60", "sm_70", "sm_80", "sm_89", "compute_90"]}'
printf '\036gpuproof %s\n' '{"kind": "devices", "devices": [], "said": null}'
