#!/bin/bash
#SBATCH --nodes=4
TP=8
if [ $NNODES -gt 1 ]; then PP=$((NNODES / 2)); else PP=1; fi
cat > ds.json <<EOF
{"train_batch_size": 64, "zero_optimization": {"stage": 1}}
EOF
torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size $TP --pipeline-model-parallel-size ${PP:-1} --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 --micro-batch-size 1 --global-batch-size 64 --bf16
