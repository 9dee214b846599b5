# Not built or run by its makers: no Docker was at hand.
# docker build -t bload .
# docker run --gpus all --ipc=host -v /data/ag:/data -v $PWD/runs:/bload/runs bload \
#     torchrun --nproc_per_node=gpu train.py experiment=action_genome dataset.root=/data
FROM python:3.13-slim
RUN apt-get update && apt-get install -y --no-install-recommends git && rm -rf /var/lib/apt/lists/*
WORKDIR /bload
COPY . .
RUN pip install --no-cache-dir -r requirements.txt
ENV TORCH_HOME=/bload/runs/.torch
CMD ["python", "train.py", "experiment=smoke"]
